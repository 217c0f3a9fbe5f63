"""Leases of virtual machines: the sweeper stops or destroys a VM once its lease has expired.

One transaction creates the job and ends the lease. Therefore the action happens once, with any number of sweepers
and also if one of them dies. A rejected action, such as the destruction of a protected VM, is recorded as an event
and tried again after ``instance.lease.scheduler.interval``.

The sweeper acts in the name of the account that owns the VM, with the rights of a user.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.leases import (
    LEASES_ENABLED,
    NO_LEASE,
    NO_LEASE_COLUMNS,
    RETRY_INTERVAL,
    ExpiryAction,
    Lease,
)
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.services.ownership import owning_caller
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import destroy_virtual_machine, stop_virtual_machine
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.rows.due_rows import read_clock
from bulkdeploy.store.virtual_machines import leases as store
from bulkdeploy.store.virtual_machines.guests import lock_vm


def changed_lease(connection: Connection, vm: Row[Any], days: int | None, action: str | None) -> Mapping[str, Any]:
    """Return the new columns of a locked VM if a call extends, shortens or ends its lease.

    Returns no columns if ``days`` is None, or if leases are disabled and ``days`` is not -1. The duration -1 always
    ends the lease, even if the lease has expired and its action failed or waits until leases are enabled.

    Raises:
        InvalidParameter: the VM has no lease to change, or its lease has expired.
    """
    if days == NO_LEASE:
        return NO_LEASE_COLUMNS
    if days is None or not read_configuration(connection).flag(LEASES_ENABLED):
        return {}
    lease = store.read_lease(connection, vm.id)
    if lease.lease_expires is None:
        raise InvalidParameter("leaseduration", days, f"virtual machine {vm.uuid} was deployed without a lease")
    if lease.expired:
        raise InvalidParameter("leaseduration", days, f"the lease of virtual machine {vm.uuid} has expired")
    if action is None:
        raise AssertionError("check_lease requires an action with a duration")
    return Lease(days, ExpiryAction(action)).columns(read_clock(connection))


def expire_lease(connection: Connection, *, system: System, vm_id: int) -> None:
    """Create the job that stops or destroys a VM whose lease has expired, and end the lease.

    Raises:
        BulkDeployError: the VM cannot be stopped or destroyed now. The caller then calls ``postpone_expiry``.
    """
    row = store.lock_due_lease(connection, vm_id)
    if row is None:
        return
    caller, vm = owning_caller(connection, row.account_id), _ref(row)
    store.end_lease(connection, vm_id)
    if row.lease_action == ExpiryAction.DESTROY:
        destroy_virtual_machine(connection, system, caller, vm, expunge=False)
    elif row.state != VmState.STOPPED or lock_vm(connection, vm_id).has_job:
        stop_virtual_machine(connection, system, caller, vm, forced=False)
    text = f"the lease of Vm {row.name} expired: {row.lease_action}"
    record_event(connection, caller, EventType.VM_LEASE_EXPIRED, text, _vm_reference(row))


def postpone_expiry(connection: Connection, *, system: System, vm_id: int, why: str) -> None:
    """Schedule another attempt of a rejected action, and record ``why`` as an event."""
    del system
    row = store.lock_due_lease(connection, vm_id)
    if row is None:
        return
    store.postpone_lease(connection, vm_id, read_configuration(connection).number(RETRY_INTERVAL))
    text = f"the lease of Vm {row.name} expired, and {row.lease_action} was rejected: {why}"
    caller = owning_caller(connection, row.account_id)
    record_event(connection, caller, EventType.VM_LEASE_EXPIRED, text, _vm_reference(row))


def _ref(row: Row[Any]) -> EntityRef:
    return EntityRef(Entity.VIRTUAL_MACHINE, row.id, row.uuid, row.name)


def _vm_reference(row: Row[Any]) -> Instance:
    return Instance("VirtualMachine", row.id, row.uuid)
