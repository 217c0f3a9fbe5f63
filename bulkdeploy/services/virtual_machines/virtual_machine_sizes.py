"""The change of a VM's service offering: its sizes and its counts change together."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.deployments.deployment import DeployRequest, OfferingFacts
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.provisioning.kinds.virtual_machines.scale_and_migrate import SCALE_AND_MIGRATE
from bulkdeploy.provisioning.kinds.virtual_machines.scale_virtual_machine import SCALE
from bulkdeploy.scheduling.vm_snapshots import find_spoiled_snapshots
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.deployments.deployment_checks import check_offering
from bulkdeploy.services.deployments.deployment_sizes import vm_sizes
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machine_changes import Change, changing, shown, vm_reference
from bulkdeploy.services.virtual_machines.virtual_machines import find_unready, submit
from bulkdeploy.services.virtual_machines.vm_work import PreparedVms, VmChange, VmJob, VmOperation, VmWork
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.deployments.deployment_facts import read_zone
from bulkdeploy.store.virtual_machines.dynamic_scaling import SETTING, find_scalable
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row, root_is_local, update_vm

SIZE_DETAILS = ("cpuNumber", "cpuSpeed", "memory")

STOPPED = frozenset({VmState.STOPPED})
UPGRADE = Change(EventType.VM_UPGRADE, "change the service offering of", STOPPED, spoils_snapshots=True)
SCALE_STOPPED = Change(SCALE.event_type, SCALE.verb, STOPPED, spoils_snapshots=True)


class NewSizes:
    """A service offering and details that a call assigns to VMs.

    Args:
        offering: the new service offering.
        details: cores, MHz and MiB if the offering is custom. Empty values are ignored.
    """

    def __init__(self, offering: EntityRef, details: Mapping[str, str]) -> None:
        self._offering = offering
        self._details = {name: value for name, value in details.items() if value}
        self._sizes_for: dict[tuple[int, int], tuple[OfferingFacts, tuple[int, int, int]]] = {}
        self._is_local: dict[int, bool] = {}

    def columns(self, connection: Connection, row: Row[Any], owner: Owner) -> dict[str, Any]:
        """Return the VM's columns with the new offering and its sizes.

        Data that the checks need is read once for each zone, owner and present offering of the VMs.

        Raises:
            InvalidParameter, InvalidCombination, PermissionDenied: the offering is not available to the owner or in
            the zone, or does not match the VM.
        """
        key = row.zone_id, owner.account_id
        if key not in self._sizes_for:
            self._sizes_for[key] = self._sizes(connection, row, owner)
        facts, sizes = self._sizes_for[key]
        if self._root_is_local(connection, row.service_offering_id) != self._root_is_local(connection, facts.id):
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
        """Return the difference between the new and the present resource counts of the VM."""
        return _more(self.columns(connection, row, owner), row)

    def _root_is_local(self, connection: Connection, offering_id: int) -> bool:
        if offering_id not in self._is_local:
            self._is_local[offering_id] = root_is_local(connection, offering_id)
        return self._is_local[offering_id]

    def _sizes(
        self, connection: Connection, row: Row[Any], owner: Owner
    ) -> tuple[OfferingFacts, tuple[int, int, int]]:
        for name in self._details:
            if name not in SIZE_DETAILS:
                rule = f"only {', '.join(SIZE_DETAILS)} can be given with a service offering"
                raise InvalidParameter(f"details[0].{name}", self._details[name], rule)
        request = DeployRequest(
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
        facts = check_offering(connection, request, owner, zone)
        return facts, vm_sizes(read_configuration(connection), facts, request)


def _more(columns: Mapping[str, Any], row: Row[Any]) -> ResourceAmounts:
    return ResourceAmounts(
        cpu=columns["cpu_number"] - row.cpu_number, memory_mib=columns["memory_mib"] - row.memory_mib
    )


def change_service(
    connection: Connection, caller: Caller, vm: EntityRef, offering: EntityRef, details: Mapping[str, str]
) -> Mapping[str, Any]:
    """Change the service offering of a stopped VM, and return the VM.

    ``details`` contains the sizes of a custom offering.

    Raises:
        PermissionDenied: the caller may not access the VM, or the VM's owner may not use the offering.
        InvalidParameter, InvalidCombination: the VM is not stopped, or the offering does not match it.
        ResourceLimitExceeded: the new sizes would exceed a limit.
    """
    new = NewSizes(offering, details)
    with changing(connection, caller, vm, UPGRADE, new.counts) as (row, owner):
        update_vm(connection, vm.id, new.columns(connection, row, owner))
        return shown(connection, vm)


def scale_virtual_machine(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    offering: EntityRef,
    details: Mapping[str, str],
    *,
    may_move: bool = False,
) -> JobTicket:
    """Change the service offering of a VM. A stopped VM is changed immediately, a running VM by a job.

    A running VM can only get larger sizes. If ``may_move`` is true and the host lacks capacity, the VM moves to
    another host.

    Raises:
        PermissionDenied: the caller may not access the VM, or the VM's owner may not use the offering.
        InvalidParameter, InvalidCombination: the VM's state does not allow it, the offering does not match the VM,
        or its hypervisor cannot scale or migrate running VMs.
        ResourceLimitExceeded: the new sizes would exceed a limit.
    """
    new = NewSizes(offering, details)
    seen = read_vm_row(connection, vm.id)
    if seen.state == VmState.STOPPED and not seen.has_job:
        with changing(connection, caller, vm, SCALE_STOPPED, new.counts) as (row, owner):
            update_vm(connection, vm.id, new.columns(connection, row, owner))
            cmd = SCALE.cmd(is_root_admin=caller.is_root_admin)
            return done_with_object(
                connection, caller, cmd, "virtualmachine", shown(connection, vm), vm_reference(vm)
            )
    owner = require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
    columns = new.columns(connection, seen, owner)
    if may_move:
        require_ability(system.drivers, seen.hypervisor, LiveMigration, "automigrate", True)
    kind = SCALE_AND_MIGRATE if may_move else SCALE
    return submit(connection, system, caller, vm, kind, columns, partial(_check_growing, columns=columns))


def scale_operation(offering: EntityRef, details: Mapping[str, str]) -> VmOperation:
    """Return the bulk operation that changes the service offering of VMs.

    Stopped VMs are changed immediately, running VMs by jobs.
    """
    states = STOPPED | SCALE.states
    new = NewSizes(offering, details)
    return VmOperation(SCALE.verb, states, SCALE.command_class, partial(_prepare_scaling, new=new))


def _prepare_scaling(
    connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]], *, new: NewSizes
) -> PreparedVms:
    del caller
    owners = owners_by_id(connection, {vm.account_id for vm in vms})
    stopped = [vm for vm in vms if _is_scaled_at_once(vm)]
    refused = find_spoiled_snapshots(connection, [vm.id for vm in stopped])
    refused |= find_unready(connection, system, [vm for vm in vms if not _is_scaled_at_once(vm)], SCALE)
    scalable = find_scalable(connection, [vm.id for vm in vms])
    configuration = read_configuration(connection)

    def work_of(vm: Row[Any]) -> VmWork:
        if vm.id in refused:
            raise InvalidParameter("id", str(vm.uuid), refused[vm.id])
        columns = new.columns(connection, vm, owners[vm.account_id])
        if _is_scaled_at_once(vm):
            return VmChange(SCALE.event_type, columns, _more(columns, vm))
        _check_growth(configuration, vm, columns, is_scalable=vm.id in scalable)
        return VmJob(SCALE, columns)

    return PreparedVms(work_of)


def _is_scaled_at_once(row: Row[Any]) -> bool:
    return row.state == VmState.STOPPED and not row.has_job and not row.removed


def _check_growing(connection: Connection, row: Row[Any], *, columns: Mapping[str, Any]) -> None:
    is_scalable = row.id in find_scalable(connection, [row.id])
    _check_growth(read_configuration(connection), row, columns, is_scalable=is_scalable)


def _check_growth(
    configuration: Configuration, row: Row[Any], columns: Mapping[str, Any], *, is_scalable: bool
) -> None:
    """Raise an error if a running VM is not dynamically scalable, or if one of its sizes would shrink.

    The capacity of the host is not checked here; the job checks it.
    """
    if not configuration.flag(SETTING, Scope.ZONE, row.zone_id):
        raise PermissionDenied(
            "Dynamically scaling virtual machines is disabled for this zone, please contact your admin "
            f"(the setting {SETTING} is false); a stopped virtual machine can be scaled"
        )
    if not is_scalable:
        raise InvalidParameter(
            "id",
            str(row.uuid),
            "the virtual machine, its service offering or its template is not dynamically scalable; stop it first",
        )
    for name in ("cpu_number", "cpu_mhz", "memory_mib"):
        if columns[name] < getattr(row, name):
            rule = f"a running virtual machine is only scaled up: {name} would shrink from {getattr(row, name)}"
            raise InvalidParameter("serviceofferingid", columns[name], rule)
