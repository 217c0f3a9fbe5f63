"""Annotations: who may write, see, hide and delete remarks on which resources."""

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, NEIGHBOUR, USER, World


def test_annotations_are_seen_by_who_may_act_for_the_owner_of_the_resource(owned_world: World) -> None:
    """Owners and root admins read and write; strangers find neither the resource nor the annotation."""
    world = owned_world
    group = change(world, "createSecurityGroup", USER, name="annotated")["id"]
    thing = change(world, "createInstanceGroup", USER, name="annotated")["id"]
    wanted = {"entitytype": "instance_group", "entityid": thing}
    mine = change(world, "addAnnotation", USER, annotation="mine", **wanted)
    assert (mine["annotation"], mine["entitytype"], mine["entityid"]) == ("mine", "INSTANCE_GROUP", thing)
    assert (mine["entityname"], mine["username"], mine["adminsonly"]) == ("annotated", USER, False)
    hidden = change(world, "addAnnotation", ADMIN, annotation="hidden", adminsonly=True, **wanted)
    assert [row["annotation"] for row in world.rows("listAnnotations", ADMIN, **wanted)] == ["hidden", "mine"]
    assert [row["annotation"] for row in world.rows("listAnnotations", USER, **wanted)] == ["mine"]
    assert world.rows("listAnnotations", NEIGHBOUR, **wanted) == []
    assert refusal(world, "addAnnotation", NEIGHBOUR, annotation="no", **wanted).status == 431
    assert refusal(world, "addAnnotation", USER, annotation="no", entitytype="VM", entityid=group).status == 431
    assert refusal(world, "updateAnnotationVisibility", USER, id=mine["id"], adminsonly=True).status in {401, 432}
    change(world, "updateAnnotationVisibility", ADMIN, id=hidden["id"], adminsonly=False)
    assert len(world.rows("listAnnotations", USER, **wanted)) == 2
    assert [row["id"] for row in world.rows("listAnnotations", USER, annotationfilter="self")] == [mine["id"]]
    assert refusal(world, "removeAnnotation", USER, id=hidden["id"]).status == 531
    assert refusal(world, "removeAnnotation", NEIGHBOUR, id=mine["id"]).status == 431
    assert change(world, "removeAnnotation", USER, id=mine["id"])["id"] == mine["id"]
    assert refusal(world, "removeAnnotation", USER, id=mine["id"]).status == 431
    assert [row["annotation"] for row in world.rows("listAnnotations", USER, **wanted)] == ["hidden"]


def test_a_host_shows_its_latest_annotation(owned_world: World) -> None:
    """The infrastructure and the service itself are root admins' to annotate."""
    world = owned_world
    (host, *_) = world.rows("listHosts")
    (server,) = world.rows("listManagementServers")
    wanted = {"entitytype": "HOST", "entityid": host["id"]}
    change(world, "addAnnotation", ADMIN, annotation="first", **wanted)
    second = change(world, "addAnnotation", ADMIN, annotation="second", **wanted)
    assert world.rows("listHosts", id=host["id"])[0]["annotation"] == "second"
    change(world, "removeAnnotation", ADMIN, id=second["id"])
    assert world.rows("listHosts", id=host["id"])[0]["annotation"] == "first"
    assert refusal(world, "addAnnotation", USER, annotation="no", **wanted).status == 531
    ours = {"entitytype": "MANAGEMENT_SERVER", "entityid": server["id"]}
    assert change(world, "addAnnotation", ADMIN, annotation="x", **ours)["entityname"] == server["name"]
    assert refusal(world, "addAnnotation", USER, annotation="no", **ours).status == 531
    assert refusal(world, "addAnnotation", ADMIN, annotation="x", entitytype="BLA", entityid="1").status == 431
    assert refusal(world, "addAnnotation", ADMIN, annotation="x", entitytype="VM", entityid="1").status == 431
