"""The ability to run custom actions on guests."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.hosts import HostAddress


@dataclass(frozen=True, slots=True)
class CustomAction:
    """A run of a custom action: its name, the values of its parameters as JSON, and its details."""

    name: str
    parameters: Mapping[str, Any] = field(repr=False, hash=False)
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


class CustomActions(Ability):
    """The ability to run operator-defined actions on guests, by the names of the actions."""

    ability_name = "custom actions"

    @property
    @abstractmethod
    def program(self) -> Path:
        """The path of the program that runs custom actions."""

    @abstractmethod
    def run_custom_action(
        self, host: HostAddress | None, guest_uuid: UUID, action: CustomAction, *, fence: int, timeout_s: float
    ) -> str:
        """Run a custom action on a guest once, and return the output of the action.

        ``host`` is the host that has the guest, or None if the guest does not run.

        Raises:
            DriverError: the action failed. If it took too long, the error is ``unanswered``.
        """
