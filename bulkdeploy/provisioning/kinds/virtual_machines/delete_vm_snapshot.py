"""The job that deletes a snapshot of a VM and leaves the VM and its other snapshots unchanged.

The deletion is requested until the hypervisor has completed it. A snapshot that cannot be deleted in time gets the
state Error, and can be deleted again.
"""

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.snapshots import Snapshots, SnapshotSpec
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import RESOURCE_UNAVAILABLE, FinalState, Outcome, Succeeded
from bulkdeploy.provisioning.progress import is_tried_again, noted_failure, pause
from bulkdeploy.provisioning.vm_snapshots import SnapshotSteps
from bulkdeploy.store.virtual_machines.vm_snapshots import end_removal, fail_removal

GONE, NOT_GONE = FinalState(release=end_removal), FinalState(release=fail_removal)


class DeleteVmSnapshot(SnapshotSteps):
    """The steps of deleting a snapshot of a VM, with the parameters of ``SnapshotSteps``."""

    @override
    def change(self, work: Assignment, snapshot: SnapshotSpec) -> Outcome:
        failure = noted_failure(work, "delete_snapshot", work.host) or self.tools.calls.remove_snapshot(
            work, snapshot
        )
        if failure is None:
            return Succeeded(GONE)
        if is_tried_again(work, failure):
            return pause(work, None)
        return self.failed(work, RESOURCE_UNAVAILABLE, str(failure), NOT_GONE)

    def without_volume(self, work: Assignment) -> Outcome:
        """Return success if the volume no longer exists, because its snapshots were deleted with the volume."""
        del work
        return Succeeded(GONE)


DELETE_VM_SNAPSHOT = JobKind(
    name="delete_vm_snapshot",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.user.vmsnapshot.DeleteVMSnapshotCmd",
    event_type=EventType.VM_SNAPSHOT_DELETE,
    verb="delete a snapshot of",
    action="deleting a snapshot of",
    not_done="did not lose its snapshot",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=None,
    ability=Snapshots,
    spoils_snapshots=False,
    if_abandoned=NOT_GONE,
    if_never_begun=NOT_GONE,
    result=JobResult.SUCCESS,
    failpoints=frozenset({Failpoint.DRIVER_DELETE_SNAPSHOT}),
    steps=DeleteVmSnapshot,
)
