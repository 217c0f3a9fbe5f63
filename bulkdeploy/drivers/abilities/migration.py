"""Live migration."""

from abc import abstractmethod

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress


class LiveMigration(Ability):
    """The ability to move a running guest to another host."""

    ability_name = "live migration"

    @abstractmethod
    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Move a running guest from ``source`` to ``destination`` without interruption.

        Nothing is done if the guest runs on ``destination`` already. A call with the hosts exchanged undoes a
        migration, even if the migration was interrupted.

        Raises:
            DriverError: the migration failed. If the guest runs on neither host, the error is not transient.
        """
