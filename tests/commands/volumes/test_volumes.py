"""Data volumes as csbench makes and attaches them: room claimed once, counted, given back, within limits."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bulkdeploy.store.auditing.audit import check_invariants
from tests.support.api.api_client import ApiFailure
from tests.support.api.async_calls import change, refusal
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import ADMIN, NEIGHBOUR, USER, World

GIB = 1024**3


def requested(world: World, name: str, offering: str = "20 GiB", **more: object) -> dict[str, object]:
    """Parameters of createVolume."""
    return {
        "name": name,
        "zoneid": world.id_of("zones", "small"),
        "diskofferingid": world.id_of("disk_offerings", offering),
        **more,
    }


def assert_audit_finds_nothing(world: World) -> None:
    """Claims, counts and rows agree: the audit finds nothing but what tests did to VMs behind the API's back."""
    found = {finding.name: finding.breaches for finding in check_invariants(world.engine)}
    assert {
        name: found[name] for name in ("pool_usage", "volumes_have_claims", "account_counts", "domain_counts")
    } == dict.fromkeys(("pool_usage", "volumes_have_claims", "account_counts", "domain_counts"), ())


def test_a_volume_is_made_attached_detached_and_deleted(owned_world: World) -> None:
    """The calls of csbench, with a stopped VM: in a pool its host reaches, nobody's, gone; never on the pool."""
    world = owned_world
    vm = deployed_vm(world, "with-volumes", state="Stopped")
    made = change(world, "createVolume", USER, **requested(world, "data"))
    assert (made["state"], made["type"], made["size"], made["account"]) == (
        "Allocated",
        "DATADISK",
        20 * GIB,
        "acme",
    )
    assert ("virtualmachineid" in made, "vmtype" in made) == (False, False)
    attached = change(world, "attachVolume", USER, id=made["id"], virtualmachineid=vm)
    assert (attached["virtualmachineid"], attached["deviceid"], attached["state"]) == (vm, 1, "Allocated")
    (seen,) = world.rows("listVolumes", ADMIN, id=made["id"])
    (root,) = world.rows("listVolumes", ADMIN, virtualmachineid=vm, type="ROOT", listall="true")
    assert seen["storageid"]
    attached_ids, detached_ids = (
        {row["id"] for row in world.rows("listVolumes", USER, attached=state)} for state in ("true", "false")
    )
    assert (made["id"] in attached_ids, made["id"] in detached_ids) == (True, False)
    assert seen.get("clusterid") in (None, root.get("clusterid"))
    assert_audit_finds_nothing(world)
    for command, more in (("attachVolume", {"virtualmachineid": vm}), ("deleteVolume", {})):
        assert refusal(world, command, USER, id=made["id"], **more).status == 431
    detached = change(world, "detachVolume", USER, virtualmachineid=vm, deviceid=1)
    assert (detached["id"], detached["state"], "virtualmachineid" in detached) == (made["id"], "Allocated", False)
    assert refusal(world, "detachVolume", USER, id=made["id"]).status == 431
    again = change(world, "attachVolume", USER, id=made["id"], virtualmachineid=vm, deviceid=7)
    assert again["deviceid"] == 7
    change(world, "detachVolume", USER, id=made["id"])
    assert refusal(world, "deleteVolume", NEIGHBOUR, id=made["id"]).status == 431
    assert change(world, "deleteVolume", USER, id=made["id"]) == {"success": True}
    assert refusal(world, "deleteVolume", USER, id=made["id"]).status == 431
    assert world.rows("listVolumes", USER, id=made["id"]) == []
    kinds = [row["type"] for row in world.rows("listEvents", USER, resourceid=made["id"])]
    assert kinds[::-1][:3] == ["VOLUME.CREATE", "VOLUME.ATTACH", "VOLUME.DETACH"]
    assert kinds[0] == "VOLUME.DELETE"
    assert_audit_finds_nothing(world)


def test_a_stopped_vm_gets_the_volume_when_it_starts(owned_world: World) -> None:
    """Without a host there is no place to choose: the volume stays Allocated and claims nothing yet."""
    world = owned_world
    vm = deployed_vm(world, "stopped-with-volume", state="Stopped")
    world.change("UPDATE virtual_machines SET host_id = NULL WHERE name = 'stopped-with-volume'")
    made = change(world, "createVolume", USER, **requested(world, "later", "Custom", size=3))
    attached = change(world, "attachVolume", USER, id=made["id"], virtualmachineid=vm)
    assert (attached["state"], attached["size"], attached["virtualmachineid"]) == ("Allocated", 3 * GIB, vm)
    change(world, "detachVolume", USER, id=made["id"])
    gone = change(world, "destroyVolume", USER, id=made["id"], expunge="true")
    assert (gone["id"], gone["state"]) == (made["id"], "Expunged")
    assert_audit_finds_nothing(world)


def test_bad_volumes_are_refused_by_name(owned_world: World) -> None:
    """Wrong sizes, offerings, owners, VMs and device numbers: refused, and nothing is kept."""
    world = owned_world
    vm, theirs = (
        deployed_vm(world, "picky", state="Stopped"),
        change(world, "createVolume", NEIGHBOUR, **requested(world, "theirs")),
    )
    mine = change(world, "createVolume", USER, **requested(world, "mine"))
    (root,) = world.rows("listVolumes", USER, virtualmachineid=vm)
    cases: tuple[tuple[str, dict[str, Any], int, str], ...] = (
        ("createVolume", requested(world, "bad", "Custom"), 431, "size"),
        ("createVolume", requested(world, "bad", "Custom", size=100_000), 431, "GiB"),
        ("createVolume", requested(world, "bad", size=5), 431, "fixed size"),
        ("createVolume", requested(world, "bad", snapshotid=mine["id"]), 431, "revertSnapshot"),
        ("attachVolume", {"id": mine["id"], "virtualmachineid": vm, "deviceid": 0}, 431, "from 1"),
        ("attachVolume", {"id": root["id"], "virtualmachineid": vm}, 431, "not attached to a VM"),
        ("attachVolume", {"id": theirs["id"], "virtualmachineid": vm}, 431, "does not exist"),
        ("detachVolume", {"id": root["id"]}, 431, "data volume"),
        ("detachVolume", {"virtualmachineid": vm, "deviceid": 5}, 431, "no volume"),
        ("detachVolume", {"virtualmachineid": vm}, 431, "deviceid"),
        ("detachVolume", {}, 431, "virtualmachineid"),
        ("deleteVolume", {"id": root["id"]}, 431, "attached"),
        ("destroyVolume", {"id": theirs["id"]}, 431, "does not exist"),
    )
    for command, parameters, status, text in cases:
        failure = refusal(world, command, USER, **parameters)
        assert (failure.status, text in failure.errortext) == (status, True), failure.errortext
    failure = refusal(world, "attachVolume", ADMIN, id=theirs["id"], virtualmachineid=vm)
    assert (failure.status, "the same account" in failure.errortext) == (431, True)
    assert world.scalar("SELECT count(*) FROM volumes WHERE name = 'bad'") == 0
    assert_audit_finds_nothing(world)


@pytest.mark.parametrize(("kind", "most"), [(2, 3), (10, 60)])
def test_limits_of_volumes_hold_under_races(owned_world: World, kind: int, most: int) -> None:
    """Eight calls at once for an account that has room for three volumes of 20 GiB: three are made."""
    world = owned_world
    rival = {"account": "rival", "domainid": world.id_of("domains", "rivals")}
    world.client().call("updateResourceLimit", resourcetype=kind, max=most, **rival)
    client = world.client("rival")

    def one(number: int) -> int:
        try:
            client.call("createVolume", **requested(world, f"race {kind} {number}"))
        except ApiFailure as failure:
            return failure.status
        return 200

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(one, range(8))) == [200] * 3 + [535] * 5
    for row in world.rows("listVolumes", "rival"):
        change(world, "deleteVolume", "rival", id=row["id"])
    world.client().call("updateResourceLimit", resourcetype=kind, max=-1, **rival)
    assert_audit_finds_nothing(world)


def test_two_vms_do_not_get_one_volume(owned_world: World) -> None:
    """Six calls at once attach a volume once, and its room is claimed once."""
    world = owned_world
    vms = [deployed_vm(world, f"rival-for-volume-{number}", state="Stopped") for number in range(2)]
    volume = change(world, "createVolume", USER, **requested(world, "wanted"))["id"]
    client = world.client(USER)

    def one(number: int) -> int:
        try:
            client.call("attachVolume", id=volume, virtualmachineid=vms[number % 2])
        except ApiFailure as failure:
            return failure.status
        return 200

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(one, range(6))) == [200] + [431] * 5
    assert_audit_finds_nothing(world)


def test_a_volume_is_renamed_and_protected(owned_world: World) -> None:
    """Its owner changes its name and protection; protected it is not deleted, nor with a destroyed VM."""
    world = owned_world
    vm = deployed_vm(world, "with-protected", state="Stopped")
    made = change(world, "createVolume", USER, **requested(world, "plain"))
    assert made["deleteprotection"] is False
    shown = change(world, "updateVolume", USER, id=made["id"], name="renamed", deleteprotection="true")
    assert (shown["name"], shown["deleteprotection"]) == ("renamed", True)
    (listed,) = world.rows("listVolumes", USER, id=made["id"])
    assert listed == shown
    for command in ("deleteVolume", "destroyVolume"):
        failure = refusal(world, command, USER, id=made["id"])
        assert (failure.status, "has delete protection enabled and cannot be deleted." in failure.errortext) == (
            431,
            True,
        )
    change(world, "attachVolume", USER, id=made["id"], virtualmachineid=vm)
    failure = refusal(world, "destroyVirtualMachine", USER, id=vm, volumeids=made["id"])
    assert (failure.status, "has delete protection enabled" in failure.errortext) == (431, True)
    change(world, "detachVolume", USER, id=made["id"])
    assert change(world, "updateVolume", USER, id=made["id"]) == shown
    cases = (
        (NEIGHBOUR, {"name": "stolen"}, 431, "does not exist"),
        (USER, {"displayvolume": "false"}, 431, "displayvolume"),
        (USER, {"name": "x" * 256}, 431, "name"),
        (ADMIN, {"customid": "2c1a54ad-6b3a-4b3e-8e1e-0f5e2a1c9f11"}, 431, "the service generates the ids"),
        (ADMIN, {"state": "Ready"}, 431, "state"),
        (ADMIN, {"path": "/dev/sda"}, 431, "pool"),
        (ADMIN, {"storageid": "1"}, 431, "pools"),
        (ADMIN, {"chaininfo": "{}"}, 431, "chaininfo"),
    )
    for by, parameters, status, text in cases:
        failure = refusal(world, "updateVolume", by, id=made["id"], **parameters)
        assert (failure.status, text in failure.errortext) == (status, True), failure.errortext
    assert world.rows("listVolumes", USER, id=made["id"])[0]["name"] == "renamed"
    change(world, "updateVolume", USER, id=made["id"], deleteprotection="false", displayvolume="true")
    change(world, "deleteVolume", USER, id=made["id"])
    assert refusal(world, "updateVolume", USER, id=made["id"], name="late").status == 431
    assert_audit_finds_nothing(world)
