"""The job that detaches a data volume from a guest and then from its VM (see ``device_changes``)."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row
from typing_extensions import override

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.drivers.abilities.devices import HotPlugVolumes
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import DEVICE_FAILPOINTS, DEVICE_STATES, TakeDevice
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import UNCHANGED
from bulkdeploy.scheduling.volume_attachment import detach
from bulkdeploy.store.volumes.volume_changes import read_volume, take_volume


class DetachVolume(TakeDevice):
    """The steps of detaching a volume. Parameters: ``volume_id``, ``volume_uuid``."""

    @override
    def device(self, work: Assignment) -> UUID:
        return UUID(work.job.params["volume_uuid"])

    @override
    def check(self, connection: Connection, work: Assignment) -> None:
        _attached(work, read_volume(connection, work.job.params["volume_id"]))

    @override
    def take(self, connection: Connection, work: Assignment) -> None:
        detach(connection, _attached(work, take_volume(connection, work.job.params["volume_id"])))


def _attached(work: Assignment, volume: Row[Any] | None) -> Row[Any]:
    if volume is None or volume.vm_id != work.vm_id:
        raise InvalidParameter("id", work.job.params["volume_uuid"], "the volume is no longer attached to the VM")
    return volume


DETACH_VOLUME = JobKind(
    name="detach_volume",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.volume.DetachVolumeCmdByAdmin",
    event_type=EventType.VOLUME_DETACH,
    verb="detach a volume from",
    action="detaching a volume from",
    not_done="did not lose the volume",
    states=DEVICE_STATES,
    move=None,
    ability=HotPlugVolumes,
    spoils_snapshots=True,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.VOLUME,
    failpoints=DEVICE_FAILPOINTS,
    steps=DetachVolume,
)
