"""The job that takes a snapshot of one volume of a VM, with the same steps as a snapshot of all its volumes."""

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.snapshots import VolumeSnapshots
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.kinds.virtual_machines.create_vm_snapshot import (
    CREATE_VM_SNAPSHOT,
    NOT_TAKEN,
    CreateVmSnapshot,
)

CREATE_SNAPSHOT = JobKind(
    name="create_snapshot",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.user.snapshot.CreateSnapshotCmd",
    event_type=EventType.SNAPSHOT_CREATE,
    verb="take a snapshot of a volume of",
    action="taking a snapshot of a volume of",
    not_done="got no snapshot of its volume",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=None,
    ability=VolumeSnapshots,
    spoils_snapshots=False,
    if_abandoned=NOT_TAKEN,
    if_never_begun=NOT_TAKEN,
    result=JobResult.SNAPSHOT,
    failpoints=CREATE_VM_SNAPSHOT.failpoints,
    steps=CreateVmSnapshot,
)
