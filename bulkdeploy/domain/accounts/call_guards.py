"""Restrictions that operators set on all calls, besides credentials (cloudstack-protocol.md 1.7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.domain.errors import BulkDeployError, ParameterError
from bulkdeploy.domain.networks.source_networks import is_within

THROTTLING = "api.throttling.enabled"
POST_WITH_TIMESTAMP = "enforce.post.requests.and.timestamps"
CHECK_SOURCES = "api.source.cidr.checks.enabled"
SOURCES = "api.allowed.source.cidr.list"
UNKNOWN_REFUSED = "api.unknown.parameters.refused"
NAMES = (THROTTLING, POST_WITH_TIMESTAMP, CHECK_SOURCES, SOURCES)

LONGEST_EXPIRY_MINUTES = 15
"""How far ahead ``expires`` may lie where timestamps are enforced: a recorded call cannot be used for longer."""

MOST_NAMES, LONGEST_NAME = 20, 80
"""Unknown parameters that an answer names, and characters of each."""


@dataclass(frozen=True, slots=True)
class CallGuards:
    """The restrictions on calls of one account: its rate limit, its timestamps and its networks.

    Attributes:
        throttled: whether the calls count towards the account's rate limit.
        post_with_timestamp: whether changing calls must use POST and, if signed, expire soon (``expires``).
        sources: CIDRs separated by commas from which calls are accepted, or None for no restriction.
    """

    throttled: bool
    post_with_timestamp: bool
    sources: str | None

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "CallGuards":
        """Return the restrictions that setting values define.

        A key of ``values`` is the scope and the name of a setting, such as ``Account
        api.allowed.source.cidr.list``. Missing settings have their default.
        """

        def value(name: str) -> str:
            default = BY_NAME[name].default
            return values.get(f"{Scope.ACCOUNT.value} {name}", values.get(f"{Scope.GLOBAL.value} {name}", default))

        sources = value(SOURCES)
        checked = value(CHECK_SOURCES) == "true" and sources != BY_NAME[SOURCES].default
        return cls(value(THROTTLING) == "true", value(POST_WITH_TIMESTAMP) == "true", sources if checked else None)

    def admits(self, address: str) -> bool:
        """Return whether calls from this IP address are accepted.

        With restricted networks, a text that is not an address is not accepted.
        """
        return self.sources is None or is_within(address, self.sources)


class ChangeByGet(BulkDeployError):
    """Raised when a GET request would change data and ``enforce.post.requests.and.timestamps`` is set (405)."""

    def __init__(self, command: str) -> None:
        super().__init__(f"{command} changes something: please use HTTP POST")


class UnknownParameters(ParameterError):
    """Raised for unknown parameters of a command if ``api.unknown.parameters.refused`` is true (431 / 9999)."""

    def __init__(self, command: str, parameters: Sequence[str]) -> None:
        self.command, self.parameters = command, tuple(parameters)
        super().__init__(
            f"Unable to execute API command {command.lower()} due to unknown parameters: {shown_names(parameters)}"
        )


def shown_names(names: Sequence[str]) -> str:
    """Return names that a caller sent as a text for an error. Long names and long lists are cut."""
    more = "" if len(names) <= MOST_NAMES else f" and {len(names) - MOST_NAMES} more"
    return ", ".join(name[:LONGEST_NAME] for name in names[:MOST_NAMES]) + more
