"""Restoring a VM: its root disk is removed and made anew from the template, at the VM's next start.

The root volume keeps its id, its room and what is counted of it; only what is on it goes. A VM that ran is
started again at once, where it was or elsewhere.
"""

from dataclasses import replace
from functools import partial
from threading import Semaphore

from sqlalchemy import Connection, Engine

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import (
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    Failed,
    LeaseLost,
    Outcome,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.start_virtual_machine import STILL_CLAIMED, starter_of_existing_vms
from bulkdeploy.provisioning.steps import OVERDUE, Begin, pause
from bulkdeploy.store.engine import read_only, run_transaction
from bulkdeploy.store.jobs import LeasedJob, write_progress
from bulkdeploy.store.virtual_machine_changes import forget_root_disk, root_volume_of

REMOVED = "root_removed"
"""Key of the job's progress: the old root disk is gone, and its row says so."""


class RestoreVirtualMachine:
    """Steps of ``JobKind.RESTORE``; params: ``template_id``, where it is to be another template than before.

    A disk that cannot be removed fails the job, and a VM that ran is made to run again as it was.
    """

    begin = Begin(
        EventType.VM_RESTORE, "restoring Vm", frozenset({VmState.RUNNING, VmState.STARTING}), VmState.STARTING
    )

    def __init__(self, engine: Engine, planning: Semaphore, calls: DriverCalls, lease_seconds: float) -> None:
        self._engine, self._calls, self._lease_seconds = engine, calls, lease_seconds
        self._starter = starter_of_existing_vms(engine, planning, calls, lease_seconds)

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps. A stopped VM stays so."""
        del job
        return True

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps."""
        if work.state in (VmState.STARTING, VmState.STOPPED):
            return None
        return Failed(
            INTERNAL_ERROR, f"VM {work.name} cannot be restored in state {work.state.value}", Settlement()
        )

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        if REMOVED not in work.job.progress:
            with read_only(self._engine) as connection:
                root = root_volume_of(connection, work.job.vm_id)
            failure = None if root is None else self._calls.remove_volume(work, root)
            if failure is not None:
                return self._not_restored(work, failure)
            forget = partial(self._forget, work=work)
            work = run_transaction(self._engine, forget, CrashPoint.RESTORE_COMMIT)
        if work.state is VmState.STOPPED:
            return Succeeded(Settlement())
        return self._starter.run(work, pinned=False)

    def _not_restored(self, work: Assignment, failure: DriverError) -> Outcome:
        if failure.transient and OVERDUE not in work.job.progress:
            return pause(work, None)
        settlement = Settlement()
        if work.state is VmState.STARTING:
            runs = self._calls.run(work) is None
            settlement = Settlement(VmState.RUNNING) if runs else STILL_CLAIMED
        return Failed(RESOURCE_UNAVAILABLE, f"VM {work.name} was not restored: {failure}", settlement)

    def _forget(self, connection: Connection, *, work: Assignment) -> Assignment:
        forget_root_disk(connection, work.job.vm_id, work.job.params.get("template_id"))
        progress = {REMOVED: True}
        if not write_progress(connection, work.job, progress, self._lease_seconds):
            raise LeaseLost(f"job {work.job.id} lost its lease while its VM was restored")
        return read_assignment(connection, replace(work.job, progress=progress))
