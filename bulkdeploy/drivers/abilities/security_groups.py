"""The ability to filter the traffic of guests by security groups."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.hosts import HostAddress


class SecurityGroupFilters(Ability):
    """The ability to drop packets of guests that the rules of their security groups do not allow."""

    ability_name = "security groups"

    @abstractmethod
    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """Apply the security group rules (``Records.security_rules``) to guests that run on ``host``.

        Starts and migrations apply the rules themselves; this method is for rules that change while guests run.
        Existing connections that are not allowed any more are cut. Guests that do not run there are omitted from
        the result.

        Returns:
            The guests that have their current rules now. Others were started without rules, or do not run there.

        Raises:
            DriverError: some of the guests may have their previous rules. All guests were tried.
        """
