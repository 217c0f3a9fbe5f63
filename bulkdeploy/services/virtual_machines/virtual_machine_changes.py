"""Changes of a VM that only affect its rows: checked, counted and written in one transaction.

The lock order requires that resources are counted before the VM's row is locked. If the locked row differs from the
row that was used for counting, the transaction is repeated.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState, one_of
from bulkdeploy.scheduling.vm_snapshots import check_no_snapshots
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.accounts.resource_counts import add_amounts, check_limits, subtract_amounts
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row
from bulkdeploy.store.virtual_machines.virtual_machines import virtual_machine_rows

Counts = Callable[[Connection, Row[Any], Owner], ResourceAmounts]
"""What the change takes of the owner's limits; negative amounts are given back."""

ANY_STATE = frozenset(VmState)
DECISIVE = ("state", "account_id", "service_offering_id", "cpu_number", "cpu_mhz", "memory_mib", "compute_released")


@dataclass(frozen=True, slots=True)
class Change:
    """A kind of change that is written to a VM's row without a job.

    ``states`` are the states in which the change is allowed, if no job works on the VM; with ANY_STATE jobs are
    ignored. ``parameter`` is the parameter that names the VM. If ``spoils_snapshots`` is true, a VM with snapshots
    is rejected.
    """

    event_type: EventType
    verb: str
    states: frozenset[VmState] = ANY_STATE
    parameter: str = "id"
    spoils_snapshots: bool = False


@contextmanager
def changing(
    connection: Connection, caller: Caller, vm: EntityRef, change: Change, counts: Counts | None = None
) -> Iterator[tuple[Row[Any], Owner]]:
    """Yield the locked row of a VM and its owner, so that the caller can change the VM, and then record the event.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM's state or its snapshots do not allow the change, a job works on the VM, or it was
            expunged.
        ResourceLimitExceeded: a limit would be exceeded.
        TransactionConflict: the VM has changed since its resources were counted; the whole transaction must be
            repeated.
    """
    seen = read_vm_row(connection, vm.id)
    owner = require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
    check_state(seen, change)
    if counts is not None:
        count(connection, owner, counts(connection, seen, owner))
    row = lock_vm(connection, vm.id)
    check_state(row, change)
    if change.spoils_snapshots:
        check_no_snapshots(connection, vm.id, change.parameter, vm.uuid)
    if any(getattr(row, name) != getattr(seen, name) for name in DECISIVE):
        raise TransactionConflict
    yield row, owner
    record_event(connection, caller, change.event_type, f"{change.verb} Vm {row.name}", vm_reference(vm), owner)


def count(connection: Connection, owner: Owner, amounts: ResourceAmounts) -> None:
    """Add positive amounts to the owner's resource counts within the limits, and subtract negative amounts."""
    parts = {name: getattr(amounts, name) for name in amounts.__dataclass_fields__}
    taken = ResourceAmounts(**{name: amount for name, amount in parts.items() if amount > 0})
    freed = ResourceAmounts(**{name: -amount for name, amount in parts.items() if amount < 0})
    if taken.by_type():
        check_limits(connection, owner, taken)
        add_amounts(connection, owner, taken)
    if freed.by_type():
        subtract_amounts(connection, {owner.account_id: freed})


def compute_of(row: Row[Any]) -> ResourceAmounts:
    """Return the resources that are counted for a VM until it is destroyed, without its volumes."""
    return ResourceAmounts(user_vm=1, cpu=row.cpu_number, memory_mib=row.memory_mib)


def vm_reference(vm: EntityRef) -> Instance:
    """Return the reference to a VM that jobs and events store."""
    return Instance(InstanceType.VIRTUAL_MACHINE, vm.id, vm.uuid)


def shown(connection: Connection, vm: EntityRef) -> Mapping[str, Any]:
    """Return the present API row of the VM."""
    return virtual_machine_rows(connection, [vm.id])[vm.id]


def check_state(row: Row[Any], change: Change) -> None:
    """Check that the state in a VM's row allows the change.

    Raises:
        InvalidParameter: the state does not allow the change, a job works on the VM, or the VM was expunged.
    """
    if row.removed is not None:
        raise InvalidParameter(change.parameter, str(row.uuid), "the virtual machine was expunged")
    if change.states == ANY_STATE:
        return
    if row.has_job:
        raise InvalidParameter(
            change.parameter, str(row.uuid), "the virtual machine has an unfinished job; wait until it ends"
        )
    if VmState(row.state) not in change.states:
        rule = f"cannot {change.verb} it in state {row.state}; its state must be {one_of(change.states)}"
        raise InvalidParameter(change.parameter, str(row.uuid), rule)
