"""The recovery of one or many destroyed VMs: checked, counted and written in the call's transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import NOTHING, ResourceAmounts
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machine_changes import (
    Change,
    changing,
    check_state,
    compute_of,
    shown,
)
from bulkdeploy.services.virtual_machines.virtual_machines import require_right
from bulkdeploy.services.virtual_machines.vm_work import PreparedVms, VmChange, VmOperation
from bulkdeploy.store.networks.nics import find_taken_names, reserve_names
from bulkdeploy.store.virtual_machines import virtual_machine_changes as rows

RECOVER = Change(EventType.VM_RECOVER, "recover", frozenset({VmState.DESTROYED}))
RECOVERED = {"state": VmState.STOPPED.value, "compute_released": False}
COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.vm.RecoverVMCmd"


def recover_virtual_machine(connection: Connection, caller: Caller, vm: EntityRef) -> Mapping[str, Any]:
    """Recover a destroyed VM to state Stopped, and return the VM. The VM is counted in its owner's limits again.

    Raises:
        PermissionDenied: the caller may not access the VM, or may not recover VMs.
        InvalidParameter: the VM is not destroyed, or was expunged, or another VM has its name now.
        ResourceLimitExceeded: a limit would be exceeded.
    """
    require_right(connection, caller, "allow.user.expunge.recover.vm", "recover a virtual machine")

    def counts(connection: Connection, row: Row[Any], owner: Owner) -> ResourceAmounts:
        del connection, owner
        return compute_of(row) if row.compute_released else ResourceAmounts()

    with changing(connection, caller, vm, RECOVER, counts) as (row, _):
        if find_taken_names(connection, [row.id]):
            raise _name_taken(row)
        reserve_names(connection, [row.id])
        rows.update_vm(connection, vm.id, RECOVERED)
        return shown(connection, vm)


def _name_taken(row: Row[Any]) -> InvalidParameter:
    rule = f"another virtual machine in the network's domain has its host name {row.name} by now: rename one"
    return InvalidParameter("id", str(row.uuid), rule)


def recover_operation() -> VmOperation:
    """Return the bulk operation that recovers destroyed VMs to state Stopped.

    The caller must have checked the permission.
    """
    return VmOperation(RECOVER.verb, RECOVER.states, COMMAND_CLASS, _prepare_recovery)


def _prepare_recovery(
    connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]]
) -> PreparedVms:
    del system, caller
    taken = find_taken_names(connection, [vm.id for vm in vms])

    def work_of(vm: Row[Any]) -> VmChange:
        check_state(vm, RECOVER)
        if vm.id in taken:
            raise _name_taken(vm)
        amounts = compute_of(vm) if vm.compute_released else NOTHING
        return VmChange(RECOVER.event_type, RECOVERED, amounts)

    def hold(connection: Connection, changed: Sequence[Row[Any]]) -> None:
        reserve_names(connection, [vm.id for vm in changed])

    return PreparedVms(work_of, hold)
