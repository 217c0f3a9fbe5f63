"""The ability to measure usage."""

from abc import abstractmethod
from collections.abc import Sequence

from bulkdeploy.domain.virtual_machines.usage import HostUsage
from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress


class UsageFigures(Ability):
    """The ability to measure the usage of hosts and of running guests."""

    ability_name = "usage figures"

    @abstractmethod
    def usage_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> list[HostUsage | DriverError]:
        """Return the usage of each host in order, or an error for a host that does not answer.

        Raises:
            DriverError: no host could be queried, and the cause is not on the hosts.
        """
