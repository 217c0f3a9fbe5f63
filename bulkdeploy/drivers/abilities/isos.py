"""ISOs in the drives of guests."""

from abc import abstractmethod

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress


class IsoDrives(Ability):
    """The ability of guests to have an ISO in their drive (``GuestSpec.iso_uuid``).

    ``ensure_running`` starts a guest with its ISO. The guest boots from the ISO if its root volume does not boot.
    """

    ability_name = "ISOs"

    @abstractmethod
    def ensure_drive(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Insert ``guest.iso_uuid`` into the drive of a guest that runs on ``host``, or eject its ISO if None.

        A call with the previous content undoes an earlier call, even if that call was interrupted. A guest without
        a drive counts as a guest with an empty drive.

        Raises:
            DriverError: the drive has its new content or its previous one. If the guest has no drive or does not
                run on the host, the error is not transient.
        """
