"""Snapshots of guests."""

from abc import abstractmethod
from dataclasses import dataclass
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress


@dataclass(frozen=True, slots=True)
class SnapshotSpec:
    """The specification of a snapshot of all volumes of a guest and, with ``with_memory``, of its memory.

    ``volume_uuid`` restricts the snapshot to one volume, without memory. None means all volumes.
    """

    uuid: UUID
    with_memory: bool
    volume_uuid: UUID | None = None

    def volumes_of(self, guest: GuestSpec) -> tuple[VolumeSpec, ...]:
        """Return the volumes of the guest that the snapshot contains."""
        return tuple(volume for volume in guest.volumes if self.volume_uuid in (None, volume.uuid))


class Snapshots(Ability):
    """The ability to take snapshots of guests that do not run."""

    ability_name = "snapshots"

    @abstractmethod
    def ensure_snapshot(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Take a snapshot of a guest that runs on ``host``, or of a stopped guest if ``host`` is None.

        Nothing is done if the snapshot exists. While a guest has snapshots, its volumes, NICs and sizes are not
        changed; it starts, stops and migrates like any other guest. A snapshot of a running guest requires
        MemorySnapshots or LiveSnapshots; a snapshot of one volume requires VolumeSnapshots.

        Raises:
            DriverError: parts of the snapshot may exist, which ``ensure_snapshot_absent`` deletes. If the guest
                does not run where it must, or runs although it must not, the error is not transient.
        """

    @abstractmethod
    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Revert a guest, or one volume of it, to a snapshot. Later changes are lost; snapshots are kept.

        If the snapshot has memory, the guest runs on ``host`` and continues from that moment. Otherwise ``host`` is
        None, and the guest does not run.

        Raises:
            DriverError: each volume is as it was in the snapshot or as it was before the call, and a guest that
                ran may have ended. If the snapshot does not exist, the error is not transient.
        """

    @abstractmethod
    def ensure_snapshot_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Delete a snapshot of a guest that runs on ``host``, or of a stopped guest if ``host`` is None.

        A missing snapshot is no error. The guest and its other snapshots are not changed.

        Raises:
            DriverError: parts of the snapshot may still exist.
        """


class MemorySnapshots(Snapshots):
    """The ability to take snapshots of running guests with their memory."""

    ability_name = "snapshots with memory"


class LiveSnapshots(Snapshots):
    """The ability to take snapshots of running guests without their memory."""

    ability_name = "snapshots of running guests without memory"


class VolumeSnapshots(Snapshots):
    """The ability to take snapshots of single volumes (``SnapshotSpec.volume_uuid``)."""

    ability_name = "snapshots of volumes"
