"""Another service offering for a VM: its sizes and what is counted of them change together."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.deployment import DeployAsk, OfferingFacts
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import JobKind
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.services.deployment_checks import check_offering
from bulkdeploy.services.deployment_sizes import vm_sizes
from bulkdeploy.services.done_jobs import done_with_success
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machine_changes import Change, about, change_vm, shown
from bulkdeploy.services.virtual_machines import Action, submit
from bulkdeploy.store.deployment_facts import read_zone
from bulkdeploy.store.engine import read_only
from bulkdeploy.store.virtual_machine_changes import (
    host_has_tags,
    is_scalable,
    read_vm_row,
    root_is_local,
    update_vm,
)

SIZE_DETAILS = ("cpuNumber", "cpuSpeed", "memory")

UPGRADE = Change(EventType.VM_UPGRADE, "change the service offering of", frozenset({VmState.STOPPED}))


SCALE_STOPPED = Change(EventType.VM_UPGRADE, "scale", frozenset({VmState.STOPPED}))
SCALE = Action(JobKind.SCALE, EventType.VM_UPGRADE, "scale", frozenset({VmState.RUNNING}))
SCALE_COMMAND_CLASS = "org.apache.cloudstack.api.command.user.vm.ScaleVMCmd"


class NewSizes:
    """A service offering and details that a call gives to a VM.

    Args:
        offering: the offering named.
        details: cores, MHz and MiB where it is custom.
    """

    def __init__(self, offering: EntityRef, details: Mapping[str, str]) -> None:
        self._offering, self._details = offering, details

    def columns(self, connection: Connection, row: Row[Any], owner: Owner) -> dict[str, Any]:
        """The VM's columns with the offering.

        Raises:
            InvalidParameter, InvalidCombination, PermissionDenied: it is not for this owner, zone or VM.
        """
        facts, sizes = self._sizes(connection, row, owner)
        if root_is_local(connection, row.service_offering_id) != root_is_local(connection, facts.id):
            raise InvalidCombination(
                ("id", "serviceofferingid"),
                f"service offering {facts.name} has another storage type than the virtual machine's volumes",
            )
        details = {name: value for name, value in row.details.items() if name not in SIZE_DETAILS}
        cpu_number, cpu_mhz, memory_mib = sizes
        return {
            "service_offering_id": facts.id,
            "cpu_number": cpu_number,
            "cpu_mhz": cpu_mhz,
            "memory_mib": memory_mib,
            "details": {**details, **self._details},
        }

    def counts(self, connection: Connection, row: Row[Any], owner: Owner) -> ResourceAmounts:
        """What the VM takes more, or less, than now; see ``virtual_machine_changes.Counts``."""
        columns = self.columns(connection, row, owner)
        return ResourceAmounts(
            cpu=columns["cpu_number"] - row.cpu_number, memory_mib=columns["memory_mib"] - row.memory_mib
        )

    def _sizes(
        self, connection: Connection, row: Row[Any], owner: Owner
    ) -> tuple[OfferingFacts, tuple[int, int, int]]:
        for name in self._details:
            if name not in SIZE_DETAILS:
                rule = f"only {', '.join(SIZE_DETAILS)} can be given with a service offering"
                raise InvalidParameter(f"details[0].{name}", self._details[name], rule)
        ask = DeployAsk(
            bulk=False,
            count=1,
            zone_id=row.zone_id,
            service_offering_id=self._offering.id,
            template_id=row.template_id,
            method="POST",
            details=self._details,
            uuids={"serviceofferingid": {self._offering.id: str(self._offering.uuid)}},
        )
        zone = read_zone(connection, row.zone_id)
        if zone is None:
            raise InvalidParameter("id", str(row.uuid), "the zone of the virtual machine was deleted")
        facts = check_offering(connection, ask, owner, zone)
        return facts, vm_sizes(facts, ask)


def change_service(
    system: System, caller: Caller, vm: EntityRef, offering: EntityRef, details: Mapping[str, str]
) -> Mapping[str, Any]:
    """Give a stopped VM another service offering; ``details`` has the sizes of a custom one. Answers the VM.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or the offering not its owner's to use.
        InvalidParameter, InvalidCombination: it is not stopped, or the offering does not go with it.
        ResourceLimitExceeded: the new sizes would pass a limit.
    """
    new = NewSizes(offering, details)

    def work(connection: Connection, row: Row[Any], owner: Owner) -> Mapping[str, Any]:
        update_vm(connection, vm.id, new.columns(connection, row, owner))
        return shown(connection, vm)

    return change_vm(system, caller, vm, UPGRADE, work, new.counts)


def scale_virtual_machine(
    system: System, caller: Caller, vm: EntityRef, offering: EntityRef, details: Mapping[str, str]
) -> JobTicket:
    """Give a VM another service offering: a stopped one at once, a running one by a job, and only larger sizes.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or the offering not its owner's to use.
        InvalidParameter, InvalidCombination: its state, or the offering, does not go with it.
        ResourceLimitExceeded: the new sizes would pass a limit.
    """
    new = NewSizes(offering, details)
    with read_only(system.engine) as connection:
        seen = read_vm_row(connection, vm.id)
    if seen.state == VmState.STOPPED and not seen.has_job:

        def work(connection: Connection, row: Row[Any], owner: Owner) -> JobTicket:
            update_vm(connection, vm.id, new.columns(connection, row, owner))
            return done_with_success(connection, caller, SCALE_COMMAND_CLASS, about(vm))

        return change_vm(system, caller, vm, SCALE_STOPPED, work, new.counts)
    with read_only(system.engine) as connection:
        row = read_vm_row(connection, vm.id)
        owner = require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")
        columns = new.columns(connection, row, owner)
    return submit(system, caller, vm, SCALE, columns, partial(_check_growth, columns=columns))


def _check_growth(connection: Connection, row: Row[Any], *, columns: Mapping[str, Any]) -> None:
    """A running guest only grows, and only where it was made for it."""
    if not is_scalable(connection, row.id):
        raise InvalidParameter(
            "id", str(row.uuid), "the virtual machine is not dynamically scalable; stop it first"
        )
    if row.host_id is not None and not host_has_tags(connection, row.host_id, columns["service_offering_id"]):
        rule = "its host does not carry the offering's host tags; stop the virtual machine first"
        raise InvalidParameter("serviceofferingid", columns["service_offering_id"], rule)
    for name in ("cpu_number", "cpu_mhz", "memory_mib"):
        if columns[name] < getattr(row, name):
            rule = f"a running virtual machine is only scaled up: {name} would shrink from {getattr(row, name)}"
            raise InvalidParameter("serviceofferingid", columns[name], rule)
