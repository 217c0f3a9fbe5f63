"""Restoring a VM: its root disk is removed and made anew from the template, at the VM's next start.

The root volume keeps its id, its room and what is counted of it; only what is on it goes. A VM that ran is
started again at once, where it was or elsewhere.
"""

from functools import partial

from sqlalchemy import Connection

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.outcome import RESOURCE_UNAVAILABLE, UNCHANGED, FinalState, Outcome, Succeeded
from bulkdeploy.provisioning.progress import OVERDUE, note, pause
from bulkdeploy.provisioning.starting import STARTER_FAILPOINTS, starter_of_existing_vms
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.virtual_machines.virtual_machine_changes import forget_root_disk, root_volume_of

RESTORE_COMMIT = "restore.commit"

REMOVED = "root_removed"
"""Key of the job's progress: the old root disk is gone, and its row says so."""


class RestoreVirtualMachine(VmSteps):
    """Params: ``template_id``, where it is to be another template than before.

    A disk that cannot be removed fails the job, and a VM that ran is made to run again as it was.
    """

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._starter = starter_of_existing_vms(kind, tools)

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        if REMOVED not in work.job.progress:
            with read_only(self.tools.engine) as connection:
                root = root_volume_of(connection, work.vm_id)
            failure = None if root is None else self.tools.calls.remove_volume(work, root)
            if failure is not None:
                return self._not_restored(work, failure)
            work = run_transaction(self.tools.engine, partial(self._forget, work=work), RESTORE_COMMIT)
        if work.state is VmState.STOPPED:
            return Succeeded(UNCHANGED)
        return self._starter.run(work, pinned=False)

    def _not_restored(self, work: Assignment, failure: DriverError) -> Outcome:
        if failure.transient and OVERDUE not in work.job.progress:
            return pause(work, None)
        final = UNCHANGED
        if work.state is VmState.STARTING:
            runs = self.tools.calls.run(work) is None
            final = FinalState(VmState.RUNNING) if runs else self.kind.if_abandoned
        return self.failed(work, RESOURCE_UNAVAILABLE, str(failure), final)

    def _forget(self, connection: Connection, *, work: Assignment) -> Assignment:
        forget_root_disk(connection, work.vm_id, work.job.params.get("template_id"))
        job = note(connection, work.job, {REMOVED: True}, self.tools.lease_seconds)
        return read_assignment(connection, job)


RESTORE = JobKind(
    name="restore_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.RestoreVMCmdByAdmin",
    event_type=EventType.VM_RESTORE,
    verb="restore",
    action="restoring",
    not_done="was not restored",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=Move(frozenset({VmState.RUNNING}), VmState.STARTING),
    ability=None,
    spoils_snapshots=True,
    if_abandoned=FinalState(VmState.UNKNOWN),
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STARTER_FAILPOINTS | {Failpoint.DRIVER_DELETE, RESTORE_COMMIT},
    steps=RestoreVirtualMachine,
)
