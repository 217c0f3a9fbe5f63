"""Fencing of hosts."""

from abc import abstractmethod

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.hosts import HostAddress


class HostFencing(Ability):
    """The ability to stop everything on a host that may be dead, such as by cutting its power."""

    ability_name = "fencing of hosts"

    @abstractmethod
    def ensure_fenced(self, host: HostAddress, *, timeout_s: float) -> None:
        """Stop everything on a host, even if it does not answer, and prevent starts until it is admitted again.

        The volumes of its guests in shared pools are kept.

        Raises:
            DriverError: guests may still run there.
        """
