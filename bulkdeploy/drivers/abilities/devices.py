"""Changes of the volumes and NICs of running guests."""

from abc import abstractmethod

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress


class DeviceChanges(Ability):
    """The base class of both hot-plug abilities."""

    @abstractmethod
    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Change the volumes and NICs of a guest that runs on ``host`` to exactly those of ``guest``.

        Missing volumes are created, attached volumes that are too small are enlarged, and detached volumes are kept
        in their pools. Nothing is done if the guest has these devices already. A call with the previous devices
        undoes an earlier call, even if that call was interrupted. The ISO drive is not changed.

        Raises:
            DriverError: the guest has its new devices, its previous ones, or some of both, and new volumes may
                exist. If the guest does not run on the host, the error is not transient.
        """


class HotPlugVolumes(DeviceChanges):
    """The ability to attach volumes to a running guest and to detach them."""

    ability_name = "hot plug of volumes"


class HotPlugNics(DeviceChanges):
    """The ability to add NICs to a running guest and to remove them."""

    ability_name = "hot plug of nics"
