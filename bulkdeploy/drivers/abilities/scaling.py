"""Changes of the CPU and memory of running guests."""

from abc import abstractmethod

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress


class LiveScaling(Ability):
    """The ability to give a running guest more CPU and memory."""

    ability_name = "live scaling"

    @abstractmethod
    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Change the CPU and memory of a guest that runs on ``host`` to those of ``guest``, while it runs.

        Nothing is done if the guest has these sizes already.

        Raises:
            DriverError: the guest has its new sizes or its old ones. If the guest does not run on the host, the
                error is not transient.
        """
