"""The job that deletes a snapshot of one volume of a VM."""

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.snapshots import VolumeSnapshots
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.kinds.virtual_machines.delete_vm_snapshot import (
    DELETE_VM_SNAPSHOT,
    NOT_GONE,
    DeleteVmSnapshot,
)

DELETE_SNAPSHOT = JobKind(
    name="delete_snapshot",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.user.snapshot.DeleteSnapshotCmd",
    event_type=EventType.SNAPSHOT_DELETE,
    verb="delete a snapshot of a volume of",
    action="deleting a snapshot of a volume of",
    not_done="did not lose the snapshot of its volume",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=None,
    ability=VolumeSnapshots,
    spoils_snapshots=False,
    if_abandoned=NOT_GONE,
    if_never_begun=NOT_GONE,
    result=JobResult.SUCCESS,
    failpoints=DELETE_VM_SNAPSHOT.failpoints,
    steps=DeleteVmSnapshot,
)
