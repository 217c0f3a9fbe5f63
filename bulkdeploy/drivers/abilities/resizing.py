"""Changes of the size of volumes."""

from abc import abstractmethod
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress


class VolumeResizing(Ability):
    """The methods that growing and shrinking volumes have in common."""

    @abstractmethod
    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Resize a volume of a guest to the size of ``volume``.

        The call may be repeated; a missing volume is skipped.

        If the volume grows, its guest, which runs on ``host``, sees the new size immediately. If it shrinks, the
        guest does not run (``host`` is None), and the data beyond the new size is lost.

        Raises:
            DriverError: the volume has its new size or its previous one; ``size_of`` returns which. If the guest
                does not run where it must, or runs although it must not, the error is not transient.
        """

    @abstractmethod
    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        """Return the real size in bytes of a volume of a guest, or None if the volume does not exist.

        Afterwards, no ``ensure_resized`` with a lower fence can change the size.

        Raises:
            DriverError: the size cannot be read now.
        """


class GrowingVolumes(VolumeResizing):
    """The ability to enlarge a volume while its guest runs."""

    ability_name = "resizing of volumes"


class ShrinkingVolumes(VolumeResizing):
    """The ability to shrink a volume while its guest does not run."""

    ability_name = "shrinking of volumes"
