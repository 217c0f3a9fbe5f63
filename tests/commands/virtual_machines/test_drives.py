"""ISOs in the drives of running VMs: a job that succeeded means that the guest has the ISO, or has it no more."""

from uuid import UUID

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.support.api.callers import refused

__all__ = ["owned"]

INSTALLER = "Debian 12 installer"


def drive(owned: Owned) -> tuple[str | None, str | None]:
    """The ISO that the first VM's row shows, and the one that its guest has."""
    (vm,) = owned.client.call("listVirtualMachines", id=owned.vm)["virtualmachine"]
    iso = owned.fleet.guests()[UUID(owned.vm)].iso_uuid
    return vm.get("isoid"), None if iso is None else str(iso)


def test_a_running_guest_gets_an_iso_and_loses_it(owned: Owned) -> None:
    """As CloudStack names it; another one needs force; a VM that starts has it in its drive."""
    iso = owned.fleet.zone.id_of("templates", INSTALLER)
    job = owned.done("attachIso", id=iso, virtualmachineid=owned.vm)
    assert (job["jobstatus"], job["cmd"].rpartition(".")[2]) == (1, "AttachIsoCmd")
    assert job["jobresult"]["virtualmachine"]["isoname"] == INSTALLER
    assert drive(owned) == (iso, iso)
    assert owned.done("rebootVirtualMachine", id=owned.vm)["jobstatus"] == 1
    assert drive(owned) == (iso, iso)
    job = owned.done("detachIso", virtualmachineid=owned.vm)
    assert (job["jobstatus"], job["jobresult"]["virtualmachine"].get("isoid")) == (1, None)
    assert drive(owned) == (None, None)
    assert "no ISO" in refused(owned.client, "detachIso", virtualmachineid=owned.vm).errortext
    types = {event["type"] for event in owned.client.call("listEvents", keyword="ISO.")["event"]}
    assert types == {"ISO.ATTACH", "ISO.DETACH"}
    owned.fleet.assert_intact()


def test_what_a_guest_does_not_take_its_vm_does_not_have(owned: Owned) -> None:
    """Row and guest are as before, and the next call changes both."""
    iso = owned.fleet.zone.id_of("templates", INSTALLER)
    owned.fleet.fault(Step.DEVICES, FaultKind.PERMANENT, remaining=1)
    job = owned.done("attachIso", id=iso, virtualmachineid=owned.vm)
    assert (job["jobstatus"], drive(owned)) == (2, (None, None))
    assert "did not get the ISO" in job["jobresult"]["errortext"]
    assert owned.done("attachIso", id=iso, virtualmachineid=owned.vm)["jobstatus"] == 1
    owned.fleet.fault(Step.DEVICES, FaultKind.PERMANENT, remaining=1)
    job = owned.done("detachIso", virtualmachineid=owned.vm)
    assert (job["jobstatus"], drive(owned)) == (2, (iso, iso))
    assert owned.done("createVMSnapshot", virtualmachineid=owned.vm)["jobstatus"] == 1
    assert "it has snapshots" in refused(owned.client, "detachIso", virtualmachineid=owned.vm).errortext
    owned.fleet.assert_intact()
