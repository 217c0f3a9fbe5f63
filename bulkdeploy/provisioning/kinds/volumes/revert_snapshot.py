"""The job that reverts one volume of a stopped VM to a snapshot of this volume."""

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.snapshots import VolumeSnapshots
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.kinds.virtual_machines.revert_to_vm_snapshot import NOT_REVERTED, RevertToVmSnapshot

REVERT_SNAPSHOT = JobKind(
    name="revert_snapshot",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.user.snapshot.RevertSnapshotCmd",
    event_type=EventType.SNAPSHOT_REVERT,
    verb="revert a volume of",
    action="reverting a volume of",
    not_done="did not get its volume reverted",
    states=frozenset({VmState.STOPPED}),
    move=None,
    ability=VolumeSnapshots,
    spoils_snapshots=False,
    if_abandoned=NOT_REVERTED,
    if_never_begun=NOT_REVERTED,
    result=JobResult.SNAPSHOT,
    failpoints=frozenset({Failpoint.DRIVER_REVERT}),
    steps=RevertToVmSnapshot,
)
