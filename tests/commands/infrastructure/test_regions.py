"""Regions: numbers and names are unique, and this installation's own region stays."""

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, USER, World


def test_regions_are_added_changed_and_removed(owned_world: World) -> None:
    """Everybody may list regions, and root admins change them."""
    world = owned_world
    north = {"id": 7, "name": "north", "endpoint": "http://north:8080/client"}
    assert change(world, "addRegion", ADMIN, **north)["endpoint"] == north["endpoint"]
    assert refusal(world, "addRegion", ADMIN, **{**north, "name": "other"}).status == 431
    assert refusal(world, "addRegion", ADMIN, **{**north, "id": 8}).status == 431
    assert refusal(world, "addRegion", USER, **north).status in {401, 432}
    assert refusal(world, "updateRegion", ADMIN, id=7, name="Local").status == 431
    assert refusal(world, "updateRegion", ADMIN, id=9, name="nine").status == 431
    assert change(world, "updateRegion", ADMIN, id=7, name="south")["name"] == "south"
    assert [(row["id"], row["name"]) for row in world.rows("listRegions", USER)] == [(1, "Local"), (7, "south")]
    assert refusal(world, "removeRegion", ADMIN, id=1).status == 431
    change(world, "removeRegion", ADMIN, id=7)
    assert world.rows("listRegions", id=7) == []
