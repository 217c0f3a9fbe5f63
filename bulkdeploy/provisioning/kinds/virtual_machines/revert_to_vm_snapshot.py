"""The job that reverts a VM to a snapshot: its volumes and, if the VM runs, its memory.

A revert is never undone: a failed attempt is repeated until the job is overdue. A guest that was not reverted is
started again unchanged.
"""

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.snapshots import Snapshots, SnapshotSpec
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, RESOURCE_UNAVAILABLE, FinalState, Outcome, Succeeded
from bulkdeploy.provisioning.progress import is_tried_again, noted_failure, pause
from bulkdeploy.provisioning.vm_snapshots import SnapshotSteps
from bulkdeploy.store.virtual_machines.vm_snapshots import end_revert, fail_revert

NOT_REVERTED = FinalState(release=fail_revert)
RUNS_AS_BEFORE = FinalState(VmState.RUNNING, fail_revert)
MAY_RUN = FinalState(VmState.UNKNOWN, fail_revert)


class RevertToVmSnapshot(SnapshotSteps):
    """The steps of reverting a VM to a snapshot, with the parameters of ``SnapshotSteps``."""

    @override
    def change(self, work: Assignment, snapshot: SnapshotSpec) -> Outcome:
        runs = work.state is VmState.STARTING
        if snapshot.with_memory is not runs:
            needed = VmState.RUNNING if snapshot.with_memory else VmState.STOPPED
            why = f"for this snapshot it must be {needed.value}"
            return self.failed(work, INTERNAL_ERROR, why, RUNS_AS_BEFORE if runs else NOT_REVERTED)
        failure = noted_failure(work, "revert", work.host) or self.tools.calls.revert(work, snapshot)
        if failure is None:
            return Succeeded(FinalState(VmState.RUNNING if runs else None, end_revert))
        if is_tried_again(work, failure):
            return pause(work, None)
        if runs:
            return self._run_as_it_is(work, failure)
        why = f"{failure}. Its volumes may be reverted only in part: revert to the snapshot again"
        return self.failed(work, RESOURCE_UNAVAILABLE, why, NOT_REVERTED)

    def _run_as_it_is(self, work: Assignment, failure: DriverError) -> Outcome:
        keep_lease(self.tools.engine, work.job, self.tools.lease_seconds)
        left = self.tools.calls.run(work)
        if left is None:
            return self.failed(work, RESOURCE_UNAVAILABLE, str(failure), RUNS_AS_BEFORE)
        if is_tried_again(work, left):
            return pause(work, failure)
        return self.failed(work, RESOURCE_UNAVAILABLE, f"{failure}; and it does not run: {left}", MAY_RUN)


REVERT_TO_VM_SNAPSHOT = JobKind(
    name="revert_to_vm_snapshot",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vmsnapshot.RevertToVMSnapshotCmdByAdmin",
    event_type=EventType.VM_SNAPSHOT_REVERT,
    verb="revert",
    action="reverting",
    not_done="was not reverted",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=Move(frozenset({VmState.RUNNING}), VmState.STARTING),
    ability=Snapshots,
    spoils_snapshots=False,
    if_abandoned=MAY_RUN,
    if_never_begun=NOT_REVERTED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=frozenset({Failpoint.DRIVER_REVERT, Failpoint.KEEP_COMMIT, Failpoint.DRIVER_BOOT}),
    steps=RevertToVmSnapshot,
)
