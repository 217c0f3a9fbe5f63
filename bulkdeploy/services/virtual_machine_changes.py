"""Changes of a VM that its rows alone make: checked, counted and written in one transaction.

What changes counts is counted first and the VM's row locked after, in the one lock order; where the VM turns
out to be another than was read, the transaction is repeated.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import VIRTUAL_MACHINE
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.store.done_jobs import Instance
from bulkdeploy.store.engine import TransactionConflict, run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.guests import lock_vm
from bulkdeploy.store.resource_counts import add_amounts, check_limits, subtract_amounts
from bulkdeploy.store.virtual_machine_changes import read_vm_row
from bulkdeploy.store.virtual_machines import virtual_machine_rows

T = TypeVar("T")

Work = Callable[[Connection, Row[Any], Owner], T]
"""What is done to the VM's row, which is locked; its owner is known."""

Counts = Callable[[Connection, Row[Any], Owner], ResourceAmounts]
"""What the change takes of the owner's limits; negative amounts are given back."""

ANY_STATE = frozenset(VmState)
DECISIVE = ("state", "account_id", "service_offering_id", "cpu_number", "cpu_mhz", "memory_mib", "compute_released")


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of change.

    ``states``: those in which it can be made, while no job works on the VM; with ANY_STATE jobs do not
    matter. ``parameter``: the one that names the VM.
    """

    event_type: EventType
    verb: str
    states: frozenset[VmState] = ANY_STATE
    parameter: str = "id"


def change_vm(
    system: System,
    caller: Caller,
    vm: EntityRef,
    change: Change,
    work: Work[T],
    counts: Counts | None = None,
) -> T:
    """Make the change and its event, or nothing.

    Raises:
        PermissionDenied: the VM is not the caller's to touch.
        InvalidParameter: the change does not go with its state, a job works on it, or it was expunged.
        ResourceLimitExceeded: what it takes would pass a limit.
    """
    return run_transaction(
        system.engine, partial(_change, caller=caller, vm=vm, change=change, work=work, counts=counts)
    )


def _change(
    connection: Connection, *, caller: Caller, vm: EntityRef, change: Change, work: Work[T], counts: Counts | None
) -> T:
    seen = read_vm_row(connection, vm.id)
    owner = require_access(connection, caller, seen.account_id, f"virtual machine {vm.uuid}")
    _check_state(vm, seen, change)
    if counts is not None:
        count(connection, owner, counts(connection, seen, owner))
    row = lock_vm(connection, vm.id)
    _check_state(vm, row, change)
    if any(getattr(row, name) != getattr(seen, name) for name in DECISIVE):
        raise TransactionConflict
    result = work(connection, row, owner)
    record_event(connection, caller, change.event_type, f"{change.verb} Vm {row.name}", about(vm), owner)
    return result


def count(connection: Connection, owner: Owner, amounts: ResourceAmounts) -> None:
    """Count what is taken, within the limits, and give back what is negative."""
    parts = {name: getattr(amounts, name) for name in amounts.__dataclass_fields__}
    taken = ResourceAmounts(**{name: amount for name, amount in parts.items() if amount > 0})
    freed = ResourceAmounts(**{name: -amount for name, amount in parts.items() if amount < 0})
    if taken.by_type():
        check_limits(connection, owner, taken)
        add_amounts(connection, owner, taken)
    if freed.by_type():
        subtract_amounts(connection, {owner.account_id: freed})


def compute_of(row: Row[Any]) -> ResourceAmounts:
    """What a VM counts while it is not destroyed, besides its volumes."""
    return ResourceAmounts(user_vm=1, cpu=row.cpu_number, memory_mib=row.memory_mib)


def about(vm: EntityRef) -> Instance:
    """The VM as jobs and events name it."""
    return Instance(VIRTUAL_MACHINE, vm.id, vm.uuid)


def shown(connection: Connection, vm: EntityRef) -> Mapping[str, Any]:
    """The VM by wire names, as it is now."""
    return virtual_machine_rows(connection, [vm.id])[vm.id]


def _check_state(vm: EntityRef, row: Row[Any], change: Change) -> None:
    if row.removed is not None:
        raise InvalidParameter(change.parameter, str(vm.uuid), "the virtual machine was expunged")
    if change.states == ANY_STATE:
        return
    if row.has_job:
        raise InvalidParameter(
            change.parameter, str(vm.uuid), "a job works on the virtual machine; wait for its end"
        )
    if VmState(row.state) not in change.states:
        rule = f"cannot {change.verb} it in state {row.state}; its state must be {one_of(change.states)}"
        raise InvalidParameter(change.parameter, str(vm.uuid), rule)


def one_of(states: Collection[VmState]) -> str:
    """The states in words."""
    return " or ".join(sorted(state.value for state in states))
