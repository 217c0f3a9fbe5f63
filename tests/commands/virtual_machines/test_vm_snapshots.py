"""Snapshots of VMs: taken, listed, reverted to and removed, and what a VM that has some refuses."""

from typing import Any

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.support.api.callers import refused

__all__ = ["owned"]


def taken(owned: Owned, **parameters: object) -> dict[str, Any]:
    """A snapshot of the first VM, as its job shows it."""
    job = owned.done("createVMSnapshot", virtualmachineid=owned.vm, **parameters)
    assert job["jobstatus"] == 1, job
    return dict(job["jobresult"]["vmsnapshot"])


def listed(owned: Owned, **parameters: object) -> list[dict[str, Any]]:
    """Snapshots as their owner sees them."""
    return list(owned.client.call("listVMSnapshot", **parameters).get("vmSnapshot", []))


def stop(owned: Owned) -> None:
    """Stop the first VM."""
    assert owned.done("stopVirtualMachine", id=owned.vm)["jobstatus"] == 1


def write(owned: Owned, content: str) -> None:
    """What a guest would write on its volumes."""
    owned.fleet.control.execute("UPDATE simulator.volumes SET content = %s", [content])


def read(owned: Owned) -> str:
    """What is on the first VM's volume."""
    query = "SELECT content FROM simulator.volumes WHERE guest_uuid = %s"
    return str(owned.fleet.control.execute(query, [owned.vm]).fetchall()[0][0])


def test_a_running_vm_goes_back_to_a_snapshot_with_memory(owned: Owned) -> None:
    """Its job shows the snapshot, and the list the same; the VM runs before and after."""
    write(owned, "before")
    answer = owned.client.call(
        "createVMSnapshot", virtualmachineid=owned.vm, name="first", description="d", snapshotmemory=True
    )
    (creating,) = listed(owned)
    assert (creating["id"], creating["state"], creating["current"]) == (answer["id"], "Creating", False)
    owned.run()
    job = owned.poll(answer["jobid"])
    assert (job["jobstatus"], job["cmd"].rpartition(".")[2]) == (1, "CreateVMSnapshotCmd")
    (snapshot,) = listed(owned, virtualmachineid=owned.vm)
    assert job["jobresult"]["vmsnapshot"] == snapshot
    vm = owned.client.call("listVirtualMachines", id=owned.vm)["virtualmachine"][0]
    assert {name: snapshot.get(name) for name in ("displayname", "description", "state", "type", "current")} == {
        "displayname": "first", "description": "d", "state": "Ready", "type": "DiskAndMemory", "current": True,
    }  # fmt: skip
    assert snapshot["name"].startswith(f"{owned.fleet.vms()[0].instance_name}_VS_20")
    shown = ("virtualmachineid", "virtualmachinename", "zonename", "hypervisor", "account")
    named = ("id", "displayname", "zonename", "hypervisor", "account")
    assert [snapshot[name] for name in shown] == [vm[name] for name in named]
    write(owned, "after")
    job = owned.done("revertToVMSnapshot", vmsnapshotid=snapshot["id"])
    assert (job["jobstatus"], job["jobresult"]["virtualmachine"]["state"]) == (1, "Running")
    assert read(owned) == "before"
    types = {event["type"] for event in owned.client.call("listEvents", keyword="VMSNAPSHOT")["event"]}
    assert types == {"VMSNAPSHOT.CREATE", "VMSNAPSHOT.REVERTTO"}
    owned.fleet.assert_intact()


def test_snapshots_of_a_stopped_vm_are_a_tree(owned: Owned) -> None:
    """Each has as parent what was current; who goes back goes on from there; children of a removed one move up."""
    stop(owned)
    first, second = taken(owned, name="first"), taken(owned, name="second")
    assert owned.done("revertToVMSnapshot", vmsnapshotid=first["id"])["jobstatus"] == 1
    third = taken(owned, name="third")
    tree = {one["displayname"]: (one.get("parentName"), one["current"]) for one in listed(owned)}
    assert tree == {"first": (None, False), "second": ("first", False), "third": ("first", True)}
    assert (second["parent"], third["type"]) == (first["id"], "Disk")
    job = owned.done("deleteVMSnapshot", vmsnapshotid=first["id"])
    assert (job["jobstatus"], job["jobresult"]) == (1, {"success": True})
    assert owned.done("deleteVMSnapshot", vmsnapshotid=third["id"])["jobstatus"] == 1
    (left,) = listed(owned)
    assert (left["id"], left.get("parent"), left["current"]) == (second["id"], None, False)
    assert refused(owned.client, "deleteVMSnapshot", vmsnapshotid=first["id"]).errorcode == 431
    job_id = owned.fleet.make_job(DESTROY, owned.fleet.vms()[0].id, expunge=True)
    owned.fleet.run(job_id)
    assert owned.fleet.vms()[0].removed is not None
    assert listed(owned) == []
    owned.fleet.assert_intact()


def test_what_a_vm_must_be_for_a_snapshot(owned: Owned) -> None:
    """Each refusal names its parameter, and nothing is made."""
    vm = owned.vm
    memory = taken(owned, name="", snapshotmemory=True)
    assert memory["displayname"] == memory["name"]
    assert owned.done("deleteVMSnapshot", vmsnapshotid=memory["id"])["jobstatus"] == 1
    memory = taken(owned, name="with memory", snapshotmemory=True)
    for parameters, says in (
        ({"name": "with memory"}, "has a snapshot of this name"),
        ({"name": "n" * 256}, "255"),
        ({"quiescevm": True}, "quiescevm"),
    ):
        assert says in refused(owned.client, "createVMSnapshot", virtualmachineid=vm, **parameters).errortext
    stop(owned)
    no_memory = refused(owned.client, "createVMSnapshot", virtualmachineid=vm, snapshotmemory=True)
    assert (no_memory.errorcode, "it must be Running" in no_memory.errortext) == (431, True)
    assert "start it first" in refused(owned.client, "revertToVMSnapshot", vmsnapshotid=memory["id"]).errortext
    disk = taken(owned, name="disk")
    assert owned.done("startVirtualMachine", id=vm)["jobstatus"] == 1
    assert "stop it first" in refused(owned.client, "revertToVMSnapshot", vmsnapshotid=disk["id"]).errortext
    owned.fleet.set_value("vmsnapshot.max", 2)
    assert "vmsnapshot.max" in refused(owned.client, "createVMSnapshot", virtualmachineid=vm).errortext
    owned.call("deleteVMSnapshot", vmsnapshotid=disk["id"])
    for command in ("deleteVMSnapshot", "revertToVMSnapshot"):
        assert "is Expunging; wait" in refused(owned.client, command, vmsnapshotid=memory["id"]).errortext
    assert "wait" in refused(owned.client, "createVMSnapshot", virtualmachineid=vm).errortext
    owned.run()
    assert [one["displayname"] for one in listed(owned)] == ["with memory"]


@pytest.mark.parametrize("power", ["running", "stopped"])
def test_a_vm_with_snapshots_stays_what_they_are_of(owned: Owned, power: str) -> None:
    """Its volumes, nics, sizes, template and owner; without the last one they change again."""
    if power == "stopped":
        stop(owned)
    snapshot = taken(owned, snapshotmemory=power == "running")
    volume, zone = owned.volume(), owned.fleet.zone
    (root,) = owned.client.call("listVolumes", virtualmachineid=owned.vm, type="ROOT")["volume"]
    offering = {"serviceofferingid": zone.id_of("service_offerings", "Custom"), "details[0].cpuNumber": 2,
                "details[0].memory": 1024}  # fmt: skip
    calls: list[tuple[str, dict[str, Any]]] = [
        ("attachVolume", {"id": volume, "virtualmachineid": owned.vm}),
        ("resizeVolume", {"id": root["id"], "size": 50}),
        ("addNicToVirtualMachine", {"virtualmachineid": owned.vm, "networkid": owned.network()}),
        ("scaleVirtualMachine", {"id": owned.vm, **offering}),
        ("restoreVirtualMachine", {"virtualmachineid": owned.vm}),
    ]
    if power == "stopped":
        calls.append(("changeServiceForVirtualMachine", {"id": owned.vm, **offering}))
    for command, parameters in calls:
        failure = refused(owned.client, command, **parameters)
        assert (failure.errorcode, "it has snapshots" in failure.errortext) == (431, True), command
    assert owned.done("deleteVMSnapshot", vmsnapshotid=snapshot["id"])["jobstatus"] == 1
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    owned.fleet.assert_intact()


def test_a_snapshot_that_failed_is_shown_and_can_be_removed(owned: Owned) -> None:
    """The VM runs on; what the hypervisor would not remove goes with deleteVMSnapshot."""
    owned.fleet.fault(Step.SNAPSHOT, FaultKind.PERMANENT, remaining=1)
    owned.fleet.fault(Step.DELETE_SNAPSHOT, FaultKind.PERMANENT, remaining=1)
    job = owned.done("createVMSnapshot", virtualmachineid=owned.vm, snapshotmemory=True)
    assert (job["jobstatus"], job["jobresult"]["errorcode"]) == (2, 534)
    (snapshot,) = listed(owned)
    assert (snapshot["state"], snapshot["current"]) == ("Error", False)
    assert (
        "its state must be Ready"
        in refused(owned.client, "revertToVMSnapshot", vmsnapshotid=snapshot["id"]).errortext
    )
    assert owned.done("deleteVMSnapshot", vmsnapshotid=snapshot["id"])["jobstatus"] == 1
    assert listed(owned) == []
    assert owned.client.call("listVirtualMachines", id=owned.vm)["virtualmachine"][0]["state"] == "Running"
    owned.fleet.assert_intact()


def test_snapshots_have_tags(owned: Owned) -> None:
    """As CloudStack's and Ansible's clients put them on."""
    snapshot = taken(owned, snapshotmemory=True)
    tag = {"tags[0].key": "colour", "tags[0].value": "blue"}
    owned.done("createTags", resourceids=snapshot["id"], resourcetype="VMSnapshot", **tag)
    (found,) = listed(owned, **tag)
    assert [(one["key"], one["value"]) for one in found["tags"]] == [("colour", "blue")]
