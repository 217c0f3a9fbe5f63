"""The job that ejects the ISO from the drive of a VM and of its running guest."""

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import DEVICE_FAILPOINTS, DEVICE_STATES, PLUG_COMMIT
from bulkdeploy.provisioning.isos import ChangeDrive
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import UNCHANGED
from bulkdeploy.scheduling.virtual_machine_isos import eject_iso


class DetachIso(ChangeDrive):
    """The steps that eject an ISO from a VM's drive. The job has no parameters."""

    @override
    def change(self, connection: Connection, work: Assignment) -> int | None:
        return eject_iso(connection, work.vm_id)


DETACH_ISO = JobKind(
    name="detach_iso",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.user.iso.DetachIsoCmd",
    event_type=EventType.ISO_DETACH,
    verb="detach the ISO of",
    action="detaching the ISO of",
    not_done="did not lose its ISO",
    states=DEVICE_STATES,
    move=None,
    ability=None,
    spoils_snapshots=True,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=DEVICE_FAILPOINTS | {PLUG_COMMIT},
    steps=DetachIso,
)
