"""The job that takes a snapshot of a VM. It removes the remains of failed attempts, and pauses until that succeeds.

A snapshot that could not be taken remains as a row in state Error, until it is deleted.
"""

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.snapshots import Snapshots, SnapshotSpec
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, RESOURCE_UNAVAILABLE, FinalState, Outcome, Succeeded
from bulkdeploy.provisioning.progress import is_tried_again, noted_failure, pause
from bulkdeploy.provisioning.vm_snapshots import SnapshotSteps
from bulkdeploy.store.virtual_machines.vm_snapshots import end_creation, fail_creation

TAKEN, NOT_TAKEN = FinalState(release=end_creation), FinalState(release=fail_creation)


class CreateVmSnapshot(SnapshotSteps):
    """The steps of taking a snapshot of a VM, with the parameters of ``SnapshotSteps``."""

    @override
    def change(self, work: Assignment, snapshot: SnapshotSpec) -> Outcome:
        if snapshot.with_memory and work.state is not VmState.RUNNING:
            why = f"it is {work.state.value}; a VM whose memory is to be kept must be Running"
            return self.failed(work, INTERNAL_ERROR, why, NOT_TAKEN)
        failure = noted_failure(work, "snapshot", work.host) or self.tools.calls.snapshot(work, snapshot)
        if failure is None:
            return Succeeded(TAKEN)
        keep_lease(self.tools.engine, work.job, self.tools.lease_seconds)
        left = self.tools.calls.remove_snapshot(work, snapshot)
        if left is not None and is_tried_again(work, left):
            return pause(work, failure)
        more = "" if left is None else f". What is left of it goes when it is deleted: {left}"
        return self.failed(work, RESOURCE_UNAVAILABLE, f"{failure}{more}", NOT_TAKEN)


CREATE_VM_SNAPSHOT = JobKind(
    name="create_vm_snapshot",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.user.vmsnapshot.CreateVMSnapshotCmd",
    event_type=EventType.VM_SNAPSHOT_CREATE,
    verb="take a snapshot of",
    action="taking a snapshot of",
    not_done="got no snapshot",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=None,
    ability=Snapshots,
    spoils_snapshots=False,
    if_abandoned=NOT_TAKEN,
    if_never_begun=NOT_TAKEN,
    result=JobResult.VM_SNAPSHOT,
    failpoints=frozenset({Failpoint.DRIVER_SNAPSHOT, Failpoint.KEEP_COMMIT, Failpoint.DRIVER_DELETE_SNAPSHOT}),
    steps=CreateVmSnapshot,
)
