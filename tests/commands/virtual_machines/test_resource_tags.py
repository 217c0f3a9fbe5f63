"""Tags: on everything that lists can filter by them, whole calls or nothing, by who may touch the thing."""

import pytest

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, NEIGHBOUR, USER, World

RED = {"tags[0].key": "colour", "tags[0].value": "red"}


def tags(world: World, resource_id: str, by: str = USER) -> dict[str, str]:
    """The tags of a thing by key."""
    return {row["key"]: row["value"] for row in world.rows("listTags", by, resourceid=resource_id)}


def security_group(world: World, name: str) -> str:
    """A fresh thing of acme."""
    return str(change(world, "createSecurityGroup", USER, name=name)["id"])


def test_a_thing_of_each_type_is_tagged_found_and_cleared(owned_world: World) -> None:
    """createTags, the list's filter by tags, deleteTags: for every type that has a list with the filter."""
    world = owned_world
    world.deploy("tagged", "acme", "acme")
    things: tuple[tuple[str, str, str, str, dict[str, str]], ...] = (
        (USER, "UserVm", "listVirtualMachines", world.id_of("virtual_machines", "tagged"), {}),
        (USER, "SecurityGroup", "listSecurityGroups", security_group(world, "tagged"), {}),
        (USER, "Volume", "listVolumes", world.rows("listVolumes", USER)[0]["id"], {}),
        (ADMIN, "Network", "listNetworks", world.id_of("networks", "guests"), {}),
        (ADMIN, "Zone", "listZones", world.id_of("zones", "small"), {}),
        (ADMIN, "Template", "listTemplates", world.id_of("templates", "Debian 12"), {"templatefilter": "all"}),
        (ADMIN, "ISO", "listIsos", world.id_of("templates", "Debian 12 installer"), {"isofilter": "all"}),
    )
    for by, kind, listing, thing, more in things:
        wanted = {"resourcetype": kind, "resourceids": thing}
        assert change(world, "createTags", by, **wanted, **RED, customer="c") == {"success": True}
        (row,) = world.rows(listing, by, **RED, **more)
        assert row["id"] == thing
        (tag,) = row["tags"]
        assert (tag["key"], tag["value"], tag["resourcetype"], tag["customer"]) == ("colour", "red", kind, "c")
        assert refusal(world, "createTags", by, **wanted, **RED).status == 431
        assert change(world, "deleteTags", by, **wanted) == {"success": True}
        assert world.rows(listing, by, **RED, **more) == []
    kinds = {row["type"] for row in world.rows("listEvents", USER)}
    assert {"CREATE_TAGS", "DELETE_TAGS"} <= kinds


def test_many_things_are_tagged_together_or_not_at_all(owned_world: World) -> None:
    """One id that is wrong, strange or tagged already, and no tag is written anywhere."""
    world = owned_world
    mine = [security_group(world, f"together {number}") for number in range(3)]
    ids = ",".join(mine)
    change(world, "createTags", USER, resourcetype="SecurityGroup", resourceids=mine[2], **RED)
    both = {**RED, "tags[1].key": "size", "tags[1].value": "large"}
    stranger = change(world, "createSecurityGroup", NEIGHBOUR, name="together")["id"]
    for resource_ids, status in ((ids, 431), (f"{mine[0]},{stranger}", 431), (f"{mine[0]},{'0' * 8}-0000", 431)):
        failure = refusal(world, "createTags", USER, resourcetype="securitygroup", resourceids=resource_ids, **both)
        assert failure.status == status
    assert [tags(world, thing) for thing in mine] == [{}, {}, {"colour": "red"}]
    change(world, "createTags", USER, resourcetype="SecurityGroup", resourceids=",".join(mine[:2]), **both)
    assert tags(world, mine[1]) == {"colour": "red", "size": "large"}


def test_tags_are_taken_off_by_key_and_value(owned_world: World) -> None:
    """A key alone takes any value; a key with a value only that one; what matches nothing is refused."""
    world = owned_world
    thing = security_group(world, "by key and value")
    wanted = {"resourcetype": "SecurityGroup", "resourceids": thing}
    change(world, "createTags", USER, **wanted, **RED, **{"tags[1].key": "size", "tags[1].value": "large"})
    blue = {"tags[0].key": "colour", "tags[0].value": "blue"}
    assert refusal(world, "deleteTags", USER, **wanted, **blue).status == 431
    assert refusal(world, "deleteTags", NEIGHBOUR, **wanted).status == 431
    change(world, "deleteTags", USER, **wanted, **{"tags[0].key": "colour"})
    assert tags(world, thing) == {"size": "large"}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"resourcetype": "Host", **RED}, "UserVm"),
        ({"resourcetype": "UserVm", **RED}, "there is no UserVm"),
        ({"resourcetype": "SecurityGroup", "tags[0].key": "k"}, "tags[0].value"),
        ({"resourcetype": "SecurityGroup", "tags[0].value": "v"}, "tags[0].key"),
        ({"resourcetype": "SecurityGroup", "tags[0].key": "k", "tags[0].value": "v" * 256}, "255"),
        ({"resourcetype": "SecurityGroup", **RED, "tags[1].key": "colour", "tags[1].value": "blue"}, "once"),
        ({"resourcetype": "SecurityGroup"}, "tags"),
    ],
)
def test_bad_tags_are_refused_by_name(owned_world: World, parameters: dict[str, str], text: str) -> None:
    """A tag that makes no sense is a parameter error."""
    thing = security_group(owned_world, f"bad {sorted(parameters.items())}"[:255])
    failure = refusal(owned_world, "createTags", USER, resourceids=thing, **parameters)
    assert (failure.status, text in failure.errortext) == (431, True), failure.errortext


def test_zones_are_tagged_by_root_admins(owned_world: World) -> None:
    """What belongs to nobody is for root admins to tag."""
    zone = owned_world.id_of("zones", "small")
    assert refusal(owned_world, "createTags", USER, resourcetype="Zone", resourceids=zone, **RED).status == 531


def test_tags_of_what_was_removed_are_not_listed(owned_world: World) -> None:
    """They are gone with their thing."""
    world = owned_world
    group = security_group(world, "short-lived")
    change(world, "createTags", USER, resourcetype="SecurityGroup", resourceids=group, **RED)
    assert tags(world, group) == {"colour": "red"}
    change(world, "deleteSecurityGroup", USER, id=group)
    assert group not in {row.get("resourceid") for row in world.rows("listTags", USER)}
    assert all("resourceid" in row for row in world.rows("listTags", USER))
