"""The job that inserts an ISO into the drive of a VM and of its running guest."""

from uuid import UUID

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import DEVICE_FAILPOINTS, DEVICE_STATES, PLUG_COMMIT
from bulkdeploy.provisioning.isos import ChangeDrive
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import UNCHANGED
from bulkdeploy.scheduling.virtual_machine_isos import insert_iso


class AttachIso(ChangeDrive):
    """The steps of attaching an ISO. Parameters: ``iso_id``, ``iso_uuid``, ``iso_name``, ``forced``."""

    @override
    def change(self, connection: Connection, work: Assignment) -> int | None:
        params = work.job.params
        iso = EntityRef(Entity.ISO, params["iso_id"], UUID(params["iso_uuid"]), params["iso_name"])
        return insert_iso(connection, work.vm_id, iso, forced=bool(params["forced"]))


ATTACH_ISO = JobKind(
    name="attach_iso",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.user.iso.AttachIsoCmd",
    event_type=EventType.ISO_ATTACH,
    verb="attach an ISO to",
    action="attaching an ISO to",
    not_done="did not get the ISO",
    states=DEVICE_STATES,
    move=None,
    ability=IsoDrives,
    spoils_snapshots=True,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=DEVICE_FAILPOINTS | {PLUG_COMMIT},
    steps=AttachIso,
)
