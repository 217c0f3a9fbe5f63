"""The job that attaches a data volume to a VM and to its running guest (see ``device_changes``)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row
from typing_extensions import override

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.drivers.abilities.devices import HotPlugVolumes
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import (
    DEVICE,
    DEVICE_FAILPOINTS,
    DEVICE_STATES,
    PLUG_COMMIT,
    GiveDevice,
)
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import UNCHANGED
from bulkdeploy.scheduling.volume_attachment import attach, undo_attachment
from bulkdeploy.store.volumes.volume_changes import READY, take_volume

STATE = "state"
HAS_PLACE = "has_place"
"""What a volume that is being attached was before."""


class AttachVolume(GiveDevice):
    """The steps of attaching a volume.

    Params: ``volume_id``, ``volume_uuid`` and ``device_id``, where None means the lowest free device id. If the
    attachment fails, a volume that was in no storage pool before is released from its pool again.
    """

    @override
    def claim(self, connection: Connection, work: Assignment) -> dict[str, Any]:
        volume = _volume(connection, work)
        attach(connection, volume, work.vm_id, work.job.params["device_id"])
        return {DEVICE: str(volume.uuid), STATE: volume.state, HAS_PLACE: volume.pool_id is not None}

    def changed_guest(self, work: Assignment, claimed: Mapping[str, Any]) -> GuestSpec:
        """Return the guest's specification with the new volume.

        A volume that was attached to a guest before is marked so that it is not created again.
        """
        was_made = claimed[STATE] == READY
        volumes = (
            replace(volume, was_made=was_made) if str(volume.uuid) == claimed[DEVICE] else volume
            for volume in work.guest.volumes
        )
        return replace(work.guest, volumes=tuple(volumes))

    @override
    def clean_up(self, work: Assignment, claimed: Mapping[str, Any]) -> DriverError | None:
        if claimed[HAS_PLACE]:
            return None
        (volume,) = (volume for volume in work.guest.volumes if str(volume.uuid) == claimed[DEVICE])
        return self.tools.calls.remove_unused_volume(work, volume.pool_uuid, volume.uuid)

    @override
    def undo_claim(self, connection: Connection, work: Assignment, claimed: Mapping[str, Any]) -> None:
        undo_attachment(connection, _volume(connection, work), state=claimed[STATE], has_place=claimed[HAS_PLACE])


def _volume(connection: Connection, work: Assignment) -> Row[Any]:
    volume = take_volume(connection, work.job.params["volume_id"])
    if volume is None:
        raise InvalidParameter("id", work.job.params["volume_uuid"], "the volume was deleted")
    return volume


ATTACH_VOLUME = JobKind(
    name="attach_volume",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.volume.AttachVolumeCmdByAdmin",
    event_type=EventType.VOLUME_ATTACH,
    verb="attach a volume to",
    action="attaching a volume to",
    not_done="did not get the volume",
    states=DEVICE_STATES,
    move=None,
    ability=HotPlugVolumes,
    spoils_snapshots=True,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.VOLUME,
    failpoints=DEVICE_FAILPOINTS | {PLUG_COMMIT, Failpoint.DRIVER_DELETE_VOLUME},
    steps=AttachVolume,
)
