"""Guest OS types of operators."""

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, USER, World


def test_operators_add_change_and_remove_guest_os_types(owned_world: World) -> None:
    """Names are unique, the types of every installation cannot be changed, and hidden ones are root admins'."""
    world = owned_world
    category = world.rows("listOsCategories", name="CentOS")[0]["id"]
    new = {"oscategoryid": category, "osdisplayname": "Our OS"}
    made = change(world, "addGuestOs", ADMIN, **new)
    assert (made["name"], made["oscategoryname"], made["isuserdefined"]) == ("Our OS", "CentOS", True)
    assert refusal(world, "addGuestOs", ADMIN, **new).status == 431
    assert refusal(world, "addGuestOs", USER, **new).status in {401, 432}
    (stock,) = world.rows("listOsTypes", description="CentOS 5.6 (64-bit)")
    assert stock["isuserdefined"] is False
    for command in ("updateGuestOs", "removeGuestOs"):
        assert "operators added" in refusal(world, command, ADMIN, id=stock["id"]).errortext
    assert refusal(world, "updateGuestOs", ADMIN, id=made["id"], osdisplayname=stock["name"]).status == 431
    change(world, "updateGuestOs", ADMIN, id=made["id"], osdisplayname="Ours", fordisplay=False)
    assert [row["name"] for row in world.rows("listOsTypes", id=made["id"])] == ["Ours"]
    assert world.rows("listOsTypes", USER, id=made["id"]) == []
    change(world, "removeGuestOs", ADMIN, id=made["id"])
    assert world.rows("listOsTypes", id=made["id"]) == []
    change(world, "addGuestOs", ADMIN, oscategoryid=category, osdisplayname="Ours")
