"""ISOs in the drives of running VMs: a job that succeeded means that the guest has the ISO, or has it no more."""

from typing import Any
from uuid import UUID

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.support.api.callers import refused

__all__ = ["owned"]

INSTALLER = "Debian 12 installer"


class DeadUrl:
    """The given driver, but no pool has this ISO, and none gets it."""

    def __init__(self, driver: Any, iso: str) -> None:
        self._driver, self._iso = driver, UUID(iso)

    def ensure_template(self, host: Any, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float) -> None:
        """See above."""
        if template_uuid == self._iso:
            raise DriverError("template", host.name, "its url answers 404", transient=False)
        self._driver.ensure_template(host, pool_uuid, template_uuid, timeout_s=timeout_s)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)


def insert_into_row(owned: Owned) -> str:
    """Let the first VM's row alone have an ISO, as where its guest was started before there were drives."""
    iso = owned.fleet.zone.id_of("templates", INSTALLER)
    owned.fleet.zone.change(
        "UPDATE virtual_machines SET iso_id = (SELECT id FROM templates WHERE uuid = :iso) WHERE uuid = :vm",
        iso=iso,
        vm=owned.vm,
    )
    return iso


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


def test_volumes_are_plugged_whatever_is_in_the_drive(owned: Owned) -> None:
    """A guest that does not have its VM's ISO, and an ISO that cannot be fetched, are no matter of a volume."""
    iso = insert_into_row(owned)
    drivers, volume = DeadUrl(owned.fleet.driver, iso), owned.volume()
    assert owned.done("attachVolume", drivers, id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    assert drive(owned) == (iso, None)
    assert owned.done("detachVolume", drivers, id=volume)["jobstatus"] == 1
    assert owned.done("detachIso", drivers, virtualmachineid=owned.vm)["jobstatus"] == 1
    assert drive(owned) == (None, None)
    job = owned.done("attachIso", drivers, id=iso, virtualmachineid=owned.vm)
    assert (job["jobstatus"], drive(owned)) == (2, (None, None))
    assert "404" in job["jobresult"]["errortext"]
    owned.fleet.assert_intact()


def test_a_start_that_lacks_its_iso_says_what_helps(owned: Owned) -> None:
    """The url of an ISO is dead: the VM does not start until detachIso took the ISO out."""
    assert owned.done("stopVirtualMachine", id=owned.vm)["jobstatus"] == 1
    drivers = DeadUrl(owned.fleet.driver, insert_into_row(owned))
    job = owned.done("startVirtualMachine", drivers, id=owned.vm)
    assert job["jobstatus"] == 2
    assert (
        "404 (the VM starts with its ISO in its drive, and detachIso takes it out)" in job["jobresult"]["errortext"]
    )
    assert owned.done("detachIso", virtualmachineid=owned.vm)["jobstatus"] == 1
    assert owned.done("startVirtualMachine", drivers, id=owned.vm)["jobstatus"] == 1
    owned.fleet.assert_intact()
