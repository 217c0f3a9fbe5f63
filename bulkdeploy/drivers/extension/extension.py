"""An extension: its executable, the stored states of its guests, and its reports about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.extension.payload import host_details, payload_of, power_of_word
from bulkdeploy.drivers.extension.program import ActionFailed, Program
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import FencedGuest, Records
from bulkdeploy.telemetry.request_id import current_user

KEPT_UNDER = "extension"
STEPS = {
    "prepare": "boot",
    "create": "boot",
    "start": "boot",
    "status": "look",
    "statuses": "look",
    "activity": "look",
    "getconsole": "console",
}
"""The names of actions in errors (``DriverError.step``). For other actions, the step is the action's name."""


class Made(StrEnum):
    """The progress of creating a guest. MAYBE means that ``create`` began and its response is unknown."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class KeptGuest:
    """The state of a guest that the driver stores in the guest's record.

    ``vm`` is the guest in the protocol's format ``cloudstack.vm.details``, with the output of ``prepare``. ``host``
    is the uuid of the last host, which is used for a stopped guest.
    """

    vm: dict[str, Any]
    external: dict[str, str]
    sizes: tuple[int, int, int]
    volumes: tuple[tuple[str, str, int], ...]
    made: Made = Made.NO
    host: str = ""

    @property
    def name(self) -> str:
        """The guest's name on the hypervisor."""
        return str(self.external.get("vm_name") or self.vm["name"])

    @classmethod
    def of(cls, fenced: FencedGuest) -> "KeptGuest | None":
        """Return the stored state of a guest, or None if this driver has stored none."""
        read = fenced.details.get(KEPT_UNDER)
        return None if read is None else cls(**{**read, "made": Made(read["made"])})


class Extension:
    """An extension with its options and its executable.

    Calls for all guests and threads share the object.

    Attributes:
        records: the records of the driver, which sets them before the first call.
    """

    records: Records

    def __init__(self, options: ExtensionOptions) -> None:
        self.options = options
        self.details = {key: value.get_secret_value() for key, value in options.details.items()}
        self.program = Program(
            options.executable, at_once=options.actions_at_once, secrets=list(self.details.values())
        )

    def states(self, host: HostAddress, timeout_s: float) -> Mapping[str, str] | None:
        """Return the power states of all guests on a host, by the guests' names.

        Returns None if the extension does not have the action ``statuses``.

        Raises:
            DriverError: the action failed.
        """
        if not self.options.statuses:
            return None
        try:
            answer = self.program.run("statuses", self.payload(host), timeout_s=timeout_s)
        except ActionFailed as error:
            raise error_of("statuses", host.name, error) from error
        states = answer.get("power_state")
        if not isinstance(states, dict):
            raise DriverError("look", host.name, "statuses: power_state must be an object", transient=True)
        return {str(name): power_of_word(state) for name, state in states.items()}

    def state(self, host: HostAddress | None, kept: KeptGuest, timeout_s: float) -> str:
        """Return the power state of a guest that the action ``status`` reports.

        Raises:
            DriverError: the action failed.
        """
        try:
            answer = self.program.run("status", self.payload(host, kept), timeout_s=timeout_s)
        except ActionFailed as error:
            raise error_of("status", ANY_HOST if host is None else host.name, error) from error
        return power_of_word(answer.get("power_state"))

    def payload(self, host: HostAddress | None, kept: KeptGuest | None = None) -> dict[str, Any]:
        """Return the payload of an action for a host, or for a guest if ``kept`` is not None."""
        details = host_details(None if host is None else host.url)
        user_id = current_user()
        caller = None if user_id is None else self.records.directory.caller(user_id)
        if kept is None:
            return payload_of(self.details, details, caller=caller)
        return payload_of(self.details, details, kept.external, kept.vm, caller)


def error_of(action: str, host_name: str, failure: ActionFailed) -> DriverError:
    """Return the driver error for an action that failed."""
    step = STEPS.get(action, action)
    return DriverError(step, host_name, str(failure), transient=True, unanswered=failure.unanswered)
