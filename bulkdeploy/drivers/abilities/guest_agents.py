"""The ability to check agents in guests."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import GuestCheck


class GuestAgents(Ability):
    """The ability to check whether the agents in guests answer."""

    ability_name = "guest agents"

    @abstractmethod
    def answers_of_guests(self, checks: Sequence[GuestCheck], *, timeout_s: float) -> Mapping[UUID, bool]:
        """Return for each guest whether it passes its health check, which may be a check of its agent.

        The rules of ``HypervisorDriver.answers_of_guests`` apply.
        """
