"""Attaching data volumes to running VMs, and detaching them (``device_changes`` has the steps)."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import DEVICE, GiveDevice, TakeDevice
from bulkdeploy.provisioning.steps import Begin
from bulkdeploy.scheduling.volume_attachment import attach, detach, take_back
from bulkdeploy.store.volume_changes import read_volume, take_volume

VOLUME = "volume_id"
VOLUME_UUID = "volume_uuid"
DEVICE_ID = "device_id"
"""Params of the jobs; the last one of attaching only, None: the lowest free one."""

STATE = "state"
HAS_PLACE = "has_place"
"""What a volume that is being attached was before."""


class AttachVolume(GiveDevice):
    """Steps of ``JobKind.ATTACH_VOLUME``. A volume that had no place loses it again where it is not attached."""

    begin = Begin(EventType.VOLUME_ATTACH, "attaching a volume to Vm", frozenset(), VmState.RUNNING)
    was_not_done = "did not get the volume"

    def claim(self, connection: Connection, work: Assignment) -> dict[str, Any]:
        """See GiveDevice."""
        volume = _there(work, take_volume(connection, work.job.params[VOLUME]))
        attach(connection, volume, work.job.vm_id, work.job.params[DEVICE_ID])
        return {DEVICE: str(volume.uuid), STATE: volume.state, HAS_PLACE: volume.pool_id is not None}

    def clean_up(self, work: Assignment, claimed: Mapping[str, Any]) -> DriverError | None:
        """See GiveDevice."""
        if claimed[HAS_PLACE]:
            return None
        (volume,) = (volume for volume in work.guest.volumes if str(volume.uuid) == claimed[DEVICE])
        return self._calls.remove_unused_volume(work, volume.pool_uuid, volume.uuid)

    def take_back(self, connection: Connection, work: Assignment, claimed: Mapping[str, Any]) -> None:
        """See GiveDevice."""
        volume = _there(work, take_volume(connection, work.job.params[VOLUME]))
        take_back(connection, volume, state=claimed[STATE], has_place=claimed[HAS_PLACE])


class DetachVolume(TakeDevice):
    """Steps of ``JobKind.DETACH_VOLUME``."""

    begin = Begin(EventType.VOLUME_DETACH, "detaching a volume from Vm", frozenset(), VmState.RUNNING)
    was_not_done = "did not lose the volume"

    def device(self, work: Assignment) -> UUID:
        """See TakeDevice."""
        return UUID(work.job.params[VOLUME_UUID])

    def check(self, connection: Connection, work: Assignment) -> None:
        """See TakeDevice."""
        _attached(work, read_volume(connection, work.job.params[VOLUME]))

    def take(self, connection: Connection, work: Assignment) -> None:
        """See TakeDevice."""
        detach(connection, _attached(work, take_volume(connection, work.job.params[VOLUME])))


def _there(work: Assignment, volume: Row[Any] | None) -> Row[Any]:
    if volume is None:
        raise InvalidParameter("id", work.job.params[VOLUME_UUID], "the volume was deleted")
    return volume


def _attached(work: Assignment, volume: Row[Any] | None) -> Row[Any]:
    if volume is None or volume.vm_id != work.job.vm_id:
        raise InvalidParameter("id", work.job.params[VOLUME_UUID], "the VM does not have it any more")
    return volume
