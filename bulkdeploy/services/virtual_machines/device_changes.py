"""Changes of a VM's devices: immediate if the VM is stopped, otherwise by a job that also changes the guest."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState, one_of
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.scheduling.vm_snapshots import check_no_snapshots
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row


def is_changed_now(
    connection: Connection, kind: JobKind, vm: EntityRef, account_id: int, change: Callable[[], Row[Any]]
) -> bool:
    """Change the devices of a VM in this transaction if no job is needed, and return whether the change was made.

    ``change`` writes the rows and returns the locked row of the VM. If the VM runs, the change is only tried and
    rolled back, so that the call fails with the errors that the job would have. If the VM has an unfinished job,
    nothing is tried, because the state after this job is unknown.

    Args:
        connection: has an open transaction.
        kind: the kind of job that makes the change while the VM runs.
        vm: the VM.
        account_id: the owner for whom the caller's permission was checked.
        change: makes the change.

    Raises:
        InvalidParameter: the VM's state does not allow the change and it has no unfinished job, or the VM has
            snapshots that the change would make unusable; or an error of ``change``.
        TransactionConflict: another transaction changed the VM's owner; the whole transaction must be repeated.
    """
    seen = read_vm_row(connection, vm.id)
    if seen.removed or (not seen.has_job and seen.state not in kind.states):
        state = "expunged" if seen.removed else seen.state
        raise InvalidParameter(
            "virtualmachineid", str(vm.uuid), f"the VM is {state}; it must be {one_of(kind.states)}"
        )
    if seen.has_job:
        return False
    savepoint = connection.begin_nested()
    row = change()
    if row.account_id != account_id:
        raise TransactionConflict
    if kind.spoils_snapshots:
        check_no_snapshots(connection, vm.id, "virtualmachineid", vm.uuid)
    if row.state == VmState.STOPPED and not row.has_job:
        savepoint.commit()
        return True
    savepoint.rollback()
    return False
