"""Templates and ISOs: registered ready, changed, shared, deleted when unused."""

import pytest

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, NEIGHBOUR, USER, World

URL = "http://images.example/disk.qcow2"
QCOW2 = {"url": URL, "format": "qcow2", "hypervisor": "kvm"}
KINDS = (
    ("Template", QCOW2, {"templatefilter": "self"}),
    ("Iso", {"url": URL}, {"isofilter": "self"}),
)
each_kind = pytest.mark.parametrize(("word", "parameters", "mine"), KINDS, ids=[kind[0] for kind in KINDS])


def register(world: World, word: str, name: str, by: str = USER, **parameters: object) -> dict[str, object]:
    """The one row of a template or ISO that is registered in the small zone."""
    zone = world.id_of("zones", "small")
    body = world.client(by).call(f"register{word}", name=name, displaytext=name, zoneid=zone, **parameters)
    assert body["count"] == 1
    (row,) = next(value for field, value in body.items() if field != "count")
    return dict(row)


@each_kind
def test_one_is_registered_changed_shared_and_deleted(
    owned_world: World, word: str, parameters: dict[str, str], mine: dict[str, str]
) -> None:
    """The answer is a list with a row per zone, ready at once; sharing, changing and deleting show in lists."""
    world, listing = owned_world, f"list{word}s"
    made = register(world, word, f"my {word}", **parameters)
    assert (made["isready"], made["status"], made["account"]) == (True, "Download Complete", "acme")
    assert (made["ispublic"], made["format"]) == (False, "ISO" if word == "Iso" else "QCOW2")
    assert world.rows(listing, USER, id=made["id"], **mine) == [made]
    executable = dict.fromkeys(mine, "executable")
    assert refusal(world, listing, NEIGHBOUR, id=made["id"], **executable).status == 431
    sharing = {"id": made["id"], "op": "add", "accounts": "neighbour"}
    assert refusal(world, f"update{word}Permissions", NEIGHBOUR, **sharing).status == 431
    assert change(world, f"update{word}Permissions", USER, **sharing) == {"success": True}
    assert len(world.rows(listing, NEIGHBOUR, id=made["id"], **executable)) == 1
    shown = world.client(USER).call(f"list{word}Permissions", id=made["id"])["templatepermission"]
    assert (shown["id"], shown["account"], shown["ispublic"]) == (made["id"], ["neighbour"], False)
    assert shown["domainid"] == world.id_of("domains", "acme")
    assert refusal(world, f"list{word}Permissions", NEIGHBOUR, id=made["id"]).status == 531
    change(world, f"update{word}Permissions", USER, id=made["id"], op="reset")
    assert refusal(world, listing, NEIGHBOUR, id=made["id"], **executable).status == 431
    changed = change(world, f"update{word}", USER, id=made["id"], name="renamed", bootable="false")
    assert (changed["name"], changed["bootable"], changed["displaytext"]) == ("renamed", False, f"my {word}")
    assert refusal(world, f"delete{word}", NEIGHBOUR, id=made["id"]).status == 431
    assert change(world, f"delete{word}", USER, id=made["id"]) == {"success": True}
    assert refusal(world, f"delete{word}", USER, id=made["id"]).status == 431
    assert refusal(world, f"list{word}Permissions", USER, id=made["id"]).status == 431
    assert world.rows(listing, USER, id=made["id"], **mine) == []


def test_a_vm_is_made_from_a_registered_template(owned_world: World) -> None:
    """Registered, deployed, in use: not deleted but by force, and the VM stays."""
    world = owned_world
    made = register(world, "Template", "to deploy", **QCOW2)
    world.deploy("from-registered", "acme", "acme", templateid=made["id"])
    failure = refusal(world, "deleteTemplate", USER, id=made["id"])
    assert (failure.status, world.id_of("virtual_machines", "from-registered") in failure.errortext) == (536, True)
    change(world, "deleteTemplate", USER, id=made["id"], forced="true")
    assert world.names("listVirtualMachines", USER, name="from-registered") == ["from-registered"]


def test_without_a_zone_all_zones_have_it(owned_world: World) -> None:
    """One row per zone; deleted from one zone it stays in the others."""
    world = owned_world
    world.change("INSERT INTO zones (name, network_type) VALUES ('second zone', 'Advanced')")
    body = world.client(USER).call("registerTemplate", name="everywhere", displaytext="e", **QCOW2)
    assert body["count"] == len(body["template"]) == 2
    made, zone = body["template"][0]["id"], world.id_of("zones", "second zone")
    for number, word in enumerate(("zoneid", "zoneids")):
        sent = {"name": f"all {number}", "displaytext": "a", word: -1, **QCOW2}
        assert world.client(USER).call("registerTemplate", **sent)["count"] == 2
    iso = world.client(USER).call(
        "registerIso", name="all", displaytext="a", zoneid=-1, url="http://a.example/a.iso"
    )
    assert iso["count"] == 2
    change(world, "deleteTemplate", USER, id=made, zoneid=zone)
    (left,) = world.rows("listTemplates", USER, id=made, templatefilter="self")
    assert left["zonename"] == "small"
    assert refusal(world, "deleteTemplate", USER, id=made, zoneid=zone).status == 431
    there = {"zoneid": zone, "name": "there", "displaytext": "t", **QCOW2}
    (only,) = world.client(USER).call("registerTemplate", **there)["template"]
    world.change("UPDATE zones SET removed = now() WHERE name = 'second zone'")
    failure = refusal(world, "updateTemplate", USER, id=only["id"], name="nowhere")
    assert (failure.status, "in no zone any more" in failure.errortext) == (431, True)
    change(world, "deleteTemplate", USER, id=only["id"])


@pytest.mark.parametrize(
    ("by", "parameters", "status", "text"),
    [
        (USER, {**QCOW2, "url": "file:///etc/passwd"}, 431, "http"),
        (USER, {**QCOW2, "url": "http://["}, 431, "http"),
        (USER, {**QCOW2, "format": "floppy"}, 431, "QCOW2"),
        (USER, {**QCOW2, "hypervisor": "abacus"}, 431, "KVM"),
        (USER, {**QCOW2, "isfeatured": "true"}, 531, "admins"),
        (USER, {"url": URL}, 431, "missing parameter"),
        (ADMIN, {**QCOW2, "account": "acme"}, 431, "domainId"),
    ],
)
def test_bad_templates_are_refused_by_name(
    owned_world: World, by: str, parameters: dict[str, str], status: int, text: str
) -> None:
    """What breaks a rule is refused, and nothing is registered."""
    failure = refusal(owned_world, "registerTemplate", by, name="bad", displaytext="bad", **parameters)
    assert (failure.status, text in failure.errortext) == (status, True), failure.errortext
    assert owned_world.scalar("SELECT count(*) FROM templates WHERE name = 'bad'") == 0


def test_templates_are_limited(owned_world: World) -> None:
    """An account with as many templates as it may have registers no more."""
    world = owned_world
    rival = {"account": "rival", "domainid": world.id_of("domains", "rivals")}
    world.client().call("updateResourceLimit", resourcetype=4, max=1, **rival)
    register(world, "Template", "first", "rival", **QCOW2)
    zone = world.id_of("zones", "small")
    failure = refusal(world, "registerTemplate", "rival", name="second", displaytext="s", zoneid=zone, **QCOW2)
    assert failure.status == 535


@each_kind
def test_details_are_kept_and_forgotten(
    owned_world: World, word: str, parameters: dict[str, str], mine: dict[str, str]
) -> None:
    """``details`` are those from now on; ``cleanupdetails`` forgets them, and both together are refused."""
    world = owned_world
    given = {"details[0].rootDiskController": "scsi"}
    made = register(world, word, f"with details {word}", **parameters)
    changed = change(world, f"update{word}", USER, id=made["id"], format=made["format"], **given)
    assert changed["details"] == {"rootDiskController": "scsi"}
    assert refusal(world, f"update{word}", USER, id=made["id"], cleanupdetails="true", **given).status == 431
    assert "details" not in change(world, f"update{word}", USER, id=made["id"], cleanupdetails="true")
    assert "details" not in world.rows(f"list{word}s", USER, id=made["id"], **mine)[0]


def test_root_admins_say_tag_and_type(owned_world: World) -> None:
    """A tag binds a template's VMs to hosts: for root admins alone, as any type but USER is."""
    world = owned_world
    for refused in ({"templatetag": "gpu"}, {"templatetype": "SYSTEM"}):
        failure = refusal(world, "registerTemplate", USER, name="x", **QCOW2, **refused)
        assert (failure.status, next(iter(refused)) in failure.errortext) == (531, True)
    made = register(world, "Template", "tagged", ADMIN, templatetag="gpu", bits="64", **QCOW2)
    assert (made["templatetag"], made["templatetype"]) == ("gpu", "USER")
    changed = change(world, "updateTemplate", ADMIN, id=made["id"], templatetag="ssd", templatetype="system")
    assert (changed["templatetag"], changed["templatetype"]) == ("ssd", "SYSTEM")
    small = world.rows("listTemplates", ADMIN, id=made["id"], templatefilter="all", details="min")[0]
    assert ("details" in small, "tags" in small) == (False, False)


@each_kind
def test_one_is_shared_with_a_project(
    owned_world: World, word: str, parameters: dict[str, str], mine: dict[str, str]
) -> None:
    """``projectids`` shares with the owner's projects; those that the caller is no member of are refused."""
    world, moon = owned_world, owned_world.id_of("projects", "moon")
    made = register(world, word, f"for the moon {word}", **parameters)
    requested = {"id": made["id"], "op": "add", "projectids": moon}
    assert change(world, f"update{word}Permissions", USER, **requested) == {"success": True}
    shared = dict.fromkeys(mine, "shared")
    assert [row["id"] for row in world.rows(f"list{word}s", USER, projectid=moon, **shared)] == [made["id"]]
    theirs = register(world, word, f"of a neighbour {word}", NEIGHBOUR, **parameters)
    assert refusal(world, f"update{word}Permissions", NEIGHBOUR, **{**requested, "id": theirs["id"]}).status == 431
    change(world, f"update{word}Permissions", USER, **{**requested, "op": "remove"})
    assert world.rows(f"list{word}s", USER, projectid=moon, **shared) == []


def test_users_make_templates_public_where_they_may(owned_world: World) -> None:
    """``allow.public.user.templates``, for all or for one account; admins always may; listCapabilities says it."""
    world, name = owned_world, "allow.public.user.templates"
    acme = {"accountid": world.id_of("accounts", "acme")}

    def says(by: str) -> bool:
        return bool(world.client(by).call("listCapabilities")["capability"]["userpublictemplateenabled"])

    assert says(USER)
    made = register(world, "Template", "of its own", **QCOW2)
    world.client().call("updateConfiguration", name=name, value="false", **acme)
    try:
        assert (says(USER), says(NEIGHBOUR), says(ADMIN)) == (False, True, True)
        public = {"name": "public", "displaytext": "p", "ispublic": "true", **QCOW2}
        failure = refusal(world, "registerTemplate", USER, **public)
        assert (failure.status, name in failure.errortext) == (531, True)
        sharing = {"id": made["id"], "ispublic": "true"}
        assert refusal(world, "updateTemplatePermissions", USER, **sharing).status == 531
        assert world.scalar("SELECT count(*) FROM templates WHERE name = 'public'") == 0
        assert change(world, "updateTemplatePermissions", ADMIN, **sharing) == {"success": True}
    finally:
        world.client().call("resetConfiguration", name=name, **acme)
    assert change(world, "updateTemplatePermissions", USER, id=made["id"], ispublic="true") == {"success": True}
