"""Snapshots of volumes: taken, listed, reverted to and removed, and what a volume that has some refuses."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bulkdeploy.api.app import create_app
from bulkdeploy.drivers.abilities.snapshots import LiveSnapshots, MemorySnapshots, Snapshots
from bulkdeploy.drivers.registry import DEFAULT, ConfiguredDriver, Drivers
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.revert_to_vm_snapshot import REVERT_TO_VM_SNAPSHOT
from bulkdeploy.services.system import System
from tests.commands.virtual_machines.test_device_parameters import not_connected
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.commands.virtual_machines.test_vm_snapshots import read, stop, write
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.api.callers import ACME, refused

__all__ = ["owned"]


@pytest.fixture
def volumes_only(system: System) -> Iterator[str]:
    """The URL of an API whose driver declares no snapshots but those of volumes."""
    abilities = SimulatorDriver.abilities - {
        Snapshots, MemorySnapshots, LiveSnapshots
    }  # fmt: skip
    driver = ConfiguredDriver("simulator", abilities, not_connected)
    with serving(create_app(replace(system, drivers=Drivers({DEFAULT: driver})))) as url:
        yield url


def root_of(owned: Owned) -> dict[str, Any]:
    """The first VM's root volume."""
    (root,) = owned.client.call("listVolumes", virtualmachineid=owned.vm, type="ROOT")["volume"]
    return dict(root)


def contents(owned: Owned) -> dict[str, str]:
    """What is on the first VM's volumes, by volume."""
    query = "SELECT uuid::text, content FROM simulator.volumes WHERE guest_uuid = %s"
    return dict(owned.fleet.control.execute(query, [owned.vm]).fetchall())


def taken(owned: Owned, volume: str, **parameters: object) -> dict[str, Any]:
    """A snapshot of a volume, as its job shows it."""
    job = owned.done("createSnapshot", volumeid=volume, **parameters)
    assert job["jobstatus"] == 1, job
    return dict(job["jobresult"]["snapshot"])


def listed(owned: Owned, **parameters: object) -> list[dict[str, Any]]:
    """Snapshots as their owner sees them."""
    return list(owned.client.call("listSnapshots", **parameters).get("snapshot", []))


def test_a_volume_of_a_running_vm_goes_back_once_it_is_stopped(owned: Owned) -> None:
    """As CloudStack names it; the job and the list show the same; VM snapshots are another list."""
    root = root_of(owned)
    write(owned, "before")
    answer = owned.client.call("createSnapshot", volumeid=root["id"], name="nightly")
    (creating,) = listed(owned)
    assert (creating["id"], creating["state"], creating["revertable"]) == (answer["id"], "Creating", False)
    owned.run()
    job = owned.poll(answer["jobid"])
    assert (job["jobstatus"], job["cmd"].rpartition(".")[2]) == (1, "CreateSnapshotCmd")
    (snapshot,) = listed(owned, volumeid=root["id"])
    assert job["jobresult"]["snapshot"] == snapshot
    assert {name: snapshot[name] for name in ("name", "state", "snapshottype", "intervaltype", "locationtype")} == {
        "name": "nightly", "state": "BackedUp", "snapshottype": "MANUAL", "intervaltype": "MANUAL",
        "locationtype": "PRIMARY",
    }  # fmt: skip
    shown = ("volumeid", "volumename", "volumetype", "virtualsize", "zonename", "account", "virtualmachineid")
    named = ("id", "name", "type", "size", "zonename", "account", "virtualmachineid")
    assert [snapshot[name] for name in shown] == [root[name] for name in named]
    assert owned.client.call("listVMSnapshot", virtualmachineid=owned.vm) == {}
    running = refused(owned.client, "revertSnapshot", id=snapshot["id"]).errortext
    assert snapshot["id"] in running
    assert running.endswith(f"virtual machine {owned.vm} in state Running; its state must be Stopped")
    assert refused(owned.client, "deleteVMSnapshot", vmsnapshotid=snapshot["id"]).errorcode == 431
    write(owned, "after")
    stop(owned)
    job = owned.done("revertSnapshot", id=snapshot["id"])
    assert (job["jobstatus"], job["jobresult"]["snapshot"]["state"]) == (1, "BackedUp")
    assert read(owned) == "before"
    job = owned.done("deleteSnapshot", id=snapshot["id"])
    assert (job["jobstatus"], job["jobresult"], listed(owned)) == (1, {"success": True}, [])
    types = {event["type"] for event in owned.client.call("listEvents", keyword="SNAPSHOT")["event"]}
    assert types == {"SNAPSHOT.CREATE", "SNAPSHOT.REVERT", "SNAPSHOT.DELETE"}
    owned.fleet.assert_intact()


def test_a_snapshot_has_tags_and_the_zone_of_its_volume(owned: Owned) -> None:
    """CloudStack's UI sends tags with the creation and the zone with the deletion; other zones are rejected."""
    root = root_of(owned)
    owned.fleet.zone.change("INSERT INTO zones (name, network_type) VALUES ('elsewhere', 'Advanced')")
    (row,) = owned.fleet.zone.rows("SELECT uuid::text AS id FROM zones WHERE name = 'elsewhere'")
    tags = {"tags[0].key": "for", "tags[0].value": "audit"}
    foreign = refused(owned.client, "createSnapshot", volumeid=root["id"], zoneids=row.id)
    assert (foreign.errorcode, "in another zone" in foreign.errortext) == (431, True)
    assert refused(owned.client, "createSnapshot", volumeid=root["id"], **{"tags[0].key": "for"}).errorcode == 431
    snapshot = taken(owned, root["id"], zoneids=root["zoneid"], **tags)
    assert [(tag["key"], tag["value"]) for tag in snapshot["tags"]] == [("for", "audit")]
    assert listed(owned, **tags) == [snapshot]
    assert "in another zone" in refused(owned.client, "deleteSnapshot", id=snapshot["id"], zoneid=row.id).errortext
    assert [one["state"] for one in listed(owned)] == ["BackedUp"]
    assert owned.done("deleteSnapshot", id=snapshot["id"], zoneid=root["zoneid"])["jobstatus"] == 1
    assert listed(owned) == []


def test_other_volumes_stay_as_they_are(owned: Owned) -> None:
    """Each volume has its own; a snapshot of the VM, which has all, is none of theirs and reverts all."""
    volume = owned.volume()
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    stop(owned)
    write(owned, "before")
    snapshot = taken(owned, volume)
    assert snapshot["name"].startswith(f"{owned.fleet.vms()[0].name}_data_20")
    whole = owned.done("createVMSnapshot", virtualmachineid=owned.vm)["jobresult"]["vmsnapshot"]
    write(owned, "after")
    assert owned.done("revertSnapshot", id=snapshot["id"])["jobstatus"] == 1
    assert contents(owned) == {volume: "before", root_of(owned)["id"]: "after"}
    (kept,) = owned.client.call("listVMSnapshot", virtualmachineid=owned.vm)["vmSnapshot"]
    assert (kept["id"], kept["current"]) == (whole["id"], True)
    assert "wait" not in str(owned.done("deleteVMSnapshot", vmsnapshotid=whole["id"]))
    job_id = owned.fleet.make_job(DESTROY, owned.fleet.vms()[0].id, expunge=True)
    owned.fleet.run(job_id)
    assert listed(owned) == []
    owned.fleet.assert_intact()


def test_a_volume_with_snapshots_stays_where_it_is(owned: Owned) -> None:
    """It is not detached, resized, restored or given away; its VM gets others, and other sizes, as before."""
    volume, other, root = owned.volume(), owned.volume("other"), root_of(owned)["id"]
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    snapshots = [taken(owned, one)["id"] for one in (volume, root)]
    for command, parameters in (
        ("detachVolume", {"id": volume}),
        ("resizeVolume", {"id": root, "size": 50}),
        ("restoreVirtualMachine", {"virtualmachineid": owned.vm}),
    ):
        failure = refused(owned.client, command, **parameters)
        assert (failure.errorcode, "has snapshots" in failure.errortext) == (431, True), command
    assert owned.done("attachVolume", id=other, virtualmachineid=owned.vm)["jobstatus"] == 1
    stop(owned)
    for snapshot in snapshots:
        assert owned.done("deleteSnapshot", id=snapshot)["jobstatus"] == 1
    assert "jobid" in owned.client.call("detachVolume", id=volume)
    owned.fleet.assert_intact()


@pytest.mark.parametrize(("command", "parameters"), [("detachVolume", {}), ("resizeVolume", {"size": 25})])
def test_no_snapshot_is_begun_of_a_volume_that_a_job_changes(
    owned: Owned, command: str, parameters: dict[str, object]
) -> None:
    """A volume is not taken from under its snapshot, and those of other volumes need not wait."""
    volume, root = owned.volume(), root_of(owned)["id"]
    owned.fleet.zone.change("UPDATE disk_offerings SET customized = true WHERE name = '20 GiB'")
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    job = owned.call(command, id=volume, **parameters)
    failure = refused(owned.client, "createSnapshot", volumeid=volume)
    assert (failure.errorcode, "wait until" in failure.errortext) == (431, True)
    other = owned.call("createSnapshot", volumeid=root)
    owned.run()
    owned.run()
    assert [owned.poll(one)["jobstatus"] for one in (job, other)] == [1, 1]
    assert [snapshot["volumeid"] for snapshot in listed(owned)] == [root]
    owned.fleet.assert_intact()


def test_a_snapshot_whose_volume_its_vm_has_lost_can_be_removed(owned: Owned) -> None:
    """Where rows were changed by hand: nothing is left to ask a hypervisor for."""
    volume = owned.volume()
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    snapshot = taken(owned, volume)
    stop(owned)
    owned.fleet.zone.change(
        "UPDATE volumes SET vm_id = NULL, device_id = NULL WHERE volume_type = 'DATADISK' AND vm_id IS NOT NULL"
    )
    assert owned.done("revertSnapshot", id=snapshot["id"])["jobstatus"] == 2
    assert owned.done("deleteSnapshot", id=snapshot["id"])["jobstatus"] == 1
    assert listed(owned) == []
    owned.fleet.assert_intact()


@pytest.mark.parametrize("whole", [False, True])
def test_no_snapshot_stays_in_a_volume_that_outlives_its_vm(owned: Owned, *, whole: bool) -> None:
    """It could not be removed there: the snapshot is deleted first, or the volume with the VM."""
    volume, client = owned.volume(), owned.client
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    stop(owned)
    taken(owned, root_of(owned)["id"])
    named = {"virtualmachineid": owned.vm} if whole else {"volumeid": volume}
    owned.call("createVMSnapshot" if whole else "createSnapshot", **named)
    failure = refused(client, "destroyVirtualMachine", id=owned.vm)
    assert (failure.errorcode, "data volumes that are not deleted" in failure.errortext) == (431, True)
    owned.run()
    assert "data volumes" in refused(client, "destroyVirtualMachine", id=owned.vm).errortext
    assert owned.done("destroyVirtualMachine", id=owned.vm, volumeids=volume)["jobstatus"] == 1
    assert client.call("listVolumes", id=volume) == {}
    owned.fleet.assert_intact()


def test_a_process_of_the_release_before_reverts_one_volume_alone(owned: Owned) -> None:
    """It takes the snapshot for one of the whole VM, and its job names no volume."""
    root = root_of(owned)["id"]
    volume = owned.volume()
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    stop(owned)
    write(owned, "before")
    snapshot = taken(owned, volume)
    write(owned, "after")
    zone = owned.fleet.zone
    zone.change("UPDATE vm_snapshots SET state = 'Reverting'")
    (row,) = zone.rows("SELECT id, uuid FROM vm_snapshots")
    params = {"snapshot_id": row.id, "snapshot_uuid": str(row.uuid), "with_memory": False}
    owned.fleet.run(owned.fleet.make_job(REVERT_TO_VM_SNAPSHOT, owned.fleet.vms()[0].id, **params))
    assert contents(owned) == {volume: "before", root: "after"}
    assert [(one["id"], one["state"]) for one in listed(owned)] == [(snapshot["id"], "BackedUp")]
    owned.fleet.assert_intact()


def test_a_driver_may_take_snapshots_of_volumes_alone(owned: Owned, volumes_only: str) -> None:
    """It takes them, reverts to them and removes them, and is asked for none of all volumes."""
    owned = replace(owned, client=ApiClient(volumes_only, *ACME))
    root = root_of(owned)["id"]
    stop(owned)
    snapshot = taken(owned, root)
    assert "snapshots" in refused(owned.client, "createVMSnapshot", virtualmachineid=owned.vm).errortext
    for command in ("revertSnapshot", "deleteSnapshot"):
        assert owned.done(command, id=snapshot["id"])["jobstatus"] == 1
    assert listed(owned) == []


def test_what_a_volume_must_be_for_a_snapshot(owned: Owned) -> None:
    """Each refusal names its parameter, and nothing is made."""
    root, free = root_of(owned)["id"], owned.volume()
    for parameters, says in (
        ({"volumeid": free}, "not attached to a virtual machine"),
        ({"volumeid": root, "quiescevm": True}, "quiescevm"),
        ({"volumeid": root, "name": "n" * 256}, "255"),
    ):
        assert says in refused(owned.client, "createSnapshot", **parameters).errortext
    snapshot = taken(owned, root, name="")
    assert snapshot["name"].startswith(f"{owned.fleet.vms()[0].name}_")
    stop(owned)
    assert owned.done("attachVolume", id=free, virtualmachineid=owned.vm)["jobstatus"] == 1
    assert "must be Ready" in refused(owned.client, "createSnapshot", volumeid=free).errortext
    owned.call("deleteSnapshot", id=snapshot["id"])
    assert "is Expunging; wait" in refused(owned.client, "revertSnapshot", id=snapshot["id"]).errortext
    assert "wait" in refused(owned.client, "createSnapshot", volumeid=root).errortext
    owned.run()
    assert refused(owned.client, "deleteSnapshot", id=snapshot["id"]).errorcode == 431
    assert listed(owned) == []


def test_an_account_has_as_many_as_its_limit_lets_it(owned: Owned) -> None:
    """Resource type 3, which lists of accounts and domains count."""
    root, zone = root_of(owned)["id"], owned.fleet.zone
    zone.change(
        "INSERT INTO resource_limits (owner_kind, owner_id, resource_type, max) SELECT 'account', id, 3, 1"
        " FROM accounts WHERE name = 'acme'"
    )
    snapshot = taken(owned, root)
    failure = refused(owned.client, "createSnapshot", volumeid=root)
    assert (failure.errorcode, "snapshot" in failure.errortext) == (535, True)
    (account,) = owned.client.call("listAccounts", name="acme")["account"]
    assert (account["snapshottotal"], account["snapshotlimit"], account["snapshotavailable"]) == (1, "1", "0")
    assert owned.done("deleteSnapshot", id=snapshot["id"])["jobstatus"] == 1
    taken(owned, root)


@pytest.mark.parametrize("step", [Step.SNAPSHOT, Step.REVERT])
def test_what_failed_is_shown_and_can_be_asked_for_again(owned: Owned, step: Step) -> None:
    """One that could not be made is in state Error, until it is removed; one that was not reverted to stays."""
    root = root_of(owned)["id"]
    stop(owned)
    if step is Step.SNAPSHOT:
        owned.fleet.fault(step, FaultKind.PERMANENT, remaining=1)
        owned.fleet.fault(Step.DELETE_SNAPSHOT, FaultKind.PERMANENT, remaining=1)
        job = owned.done("createSnapshot", volumeid=root)
        assert (job["jobstatus"], listed(owned)[0]["state"]) == (2, "Error")
        assert "must be Ready" in refused(owned.client, "revertSnapshot", id=listed(owned)[0]["id"]).errortext
    else:
        snapshot = taken(owned, root)
        owned.fleet.fault(step, FaultKind.PERMANENT, remaining=1)
        job = owned.done("revertSnapshot", id=snapshot["id"])
        assert (job["jobstatus"], listed(owned)[0]["state"]) == (2, "BackedUp")
        assert owned.done("revertSnapshot", id=snapshot["id"])["jobstatus"] == 1
    assert owned.done("deleteSnapshot", id=listed(owned)[0]["id"])["jobstatus"] == 1
    assert listed(owned) == []
    owned.fleet.assert_intact()
