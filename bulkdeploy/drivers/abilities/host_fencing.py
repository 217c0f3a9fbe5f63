"""The ability to fence hosts."""

from abc import abstractmethod

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.hosts import HostAddress


class HostFencing(Ability):
    """The ability to stop all guests of a host that may be dead, for example by cutting its power."""

    ability_name = "fencing of hosts"

    @abstractmethod
    def ensure_fenced(self, host: HostAddress, *, timeout_s: float) -> None:
        """Stop all guests of a host, and prevent starts on the host until it is admitted again.

        The host need not answer. The volumes of its guests in shared pools are kept.

        Raises:
            DriverError: guests may still run on the host.
        """
