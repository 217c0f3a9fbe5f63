"""Details beside resources: written, listed and deleted by those who may touch the resource."""

import pytest

from tests.support.api.account_calls import done, refusal
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World


@pytest.fixture
def volume(world: World) -> dict[str, str]:
    """Return the parameters that name the root volume of a VM of USER."""
    (row,) = world.rows("listVolumes", USER, virtualmachineid=world.id_of("virtual_machines", "acme-1"))
    return {"resourcetype": "Volume", "resourceid": row["id"]}


def write(world: World, resource: dict[str, str], by: str = USER, **pairs: str) -> None:
    """Write details of a resource."""
    sent: dict[str, str] = {}
    for at, (key, value) in enumerate(pairs.items()):
        sent |= {f"details[{at}].key": key, f"details[{at}].value": value}
    answer = world.client(by).call("addResourceDetail", **resource, **sent)
    assert done(world, answer, by) == {"success": True}


def details(world: World, resource: dict[str, str], by: str = USER, **more: str) -> dict[str, str]:
    """Return the details of a resource that a caller sees."""
    rows = world.rows("listResourceDetails", by, **resource, **more)
    assert {(row["resourcetype"], row["resourceid"]) for row in rows} <= {tuple(resource.values())}
    return {row["key"]: row["value"] for row in rows}


def test_details_are_written_replaced_and_removed(world: World, volume: dict[str, str]) -> None:
    """A key has one value; a detail is removed by its key, or all at once, and again without an error."""
    write(world, volume, backup="weekly", tier="gold")
    write(world, volume, tier="silver")
    assert details(world, volume) == {"backup": "weekly", "tier": "silver"}
    assert details(world, volume, key="tier") == details(world, volume, value="silver") == {"tier": "silver"}
    assert details(world, volume, keyword="WEEK") == {"backup": "weekly"}
    for key, left in (({"key": "tier"}, {"backup": "weekly"}), ({}, {}), ({}, {})):
        answer = world.client(USER).call("removeResourceDetail", **volume, **key)
        assert done(world, answer, USER) == {"success": True}
        assert details(world, volume) == left


def test_details_belong_to_the_owner_of_the_resource(world: World, volume: dict[str, str]) -> None:
    """Others neither see nor change them; details of zones are root admins'."""
    write(world, volume, secret="ours")
    pair = {"details[0].key": "a", "details[0].value": "b"}
    for stranger in (NEIGHBOUR, RIVAL):
        assert details(world, volume, stranger) == {}
        assert refusal(world.client(stranger).get("addResourceDetail", **volume, **pair))[0] == 431
        assert refusal(world.client(stranger).get("removeResourceDetail", **volume))[0] == 431
    zone = {"resourcetype": "Zone", "resourceid": world.id_of("zones", "small")}
    assert refusal(world.client(USER).get("addResourceDetail", **zone, **pair))[0] == 531
    answer = world.client().call("addResourceDetail", **zone, **pair)
    assert done(world, answer, ADMIN) == {"success": True}
    assert [row["key"] for row in world.rows("listResourceDetails", **zone)] == ["a"]
    assert details(world, volume) == {"secret": "ours"}


def test_wrong_values_are_named(world: World, volume: dict[str, str]) -> None:
    """An id of another type, an unknown type and an empty or long text are refused, and nothing is written."""
    for sent in (
        {**volume, "resourcetype": "Network", "details[0].key": "a", "details[0].value": "b"},
        {**volume, "resourcetype": "Coffee", "details[0].key": "a", "details[0].value": "b"},
        {**volume, "details[0].key": "a", "details[0].value": "b" * 256},
        {**volume, "details[0].key": "a" * 256, "details[0].value": "b"},
        volume,
    ):
        assert refusal(world.client(USER).get("addResourceDetail", **sent))[0] == 431, sent
    assert "a" not in details(world, volume)


def test_hidden_details_are_root_admins(world: World, volume: dict[str, str]) -> None:
    """With fordisplay=false only root admins see, replace and remove a detail.

    The rejection of a call names the key and not the value, and no other detail of the call is written.
    """
    client = world.client()
    sent = {"details[0].key": "hidden", "details[0].value": "yes", "fordisplay": "false"}
    done(world, client.call("addResourceDetail", **volume, **sent), ADMIN)
    assert "hidden" not in details(world, volume)
    done(world, world.client(USER).call("removeResourceDetail", **volume), USER)
    rows = world.rows("listResourceDetails", **volume, listall="true", fordisplay="false")
    assert [row["key"] for row in rows] == ["hidden"]
    pairs = {"details[0].key": "a", "details[0].value": "b", "details[1].key": "hidden", "details[1].value": "no"}
    for by in (USER, DOMAIN_ADMIN):
        code, why = refusal(world.client(by).get("addResourceDetail", **volume, **pairs))
        assert (code, "'hidden'" in why, "yes" in why) == (431, True, False), why
    assert details(world, volume) == {}
    assert details(world, volume, ADMIN, listall="true", fordisplay="false") == {"hidden": "yes"}
    write(world, volume, ADMIN, hidden="shown")
    assert details(world, volume) == {"hidden": "shown"}
