"""Health checks of guests: by the guest agent, or by a connection to a TCP port of the guest."""

from dataclasses import dataclass
from typing import Self

from bulkdeploy.domain.errors import InvalidParameter

AGENT, NO_CHECK, TCP = "agent", "none", "tcp:"
HIGHEST_PORT = 65535

LONGEST_TIMEOUT_S = 86400
"""Most seconds within which a guest must answer. Results of checks are kept for a day."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A health check of a guest.

    ``port`` is the TCP port to connect to; None means that the guest agent is queried.
    """

    port: int | None = None

    @classmethod
    def read(cls, given: str) -> Self | None:
        """Parse a health check such as ``agent`` or ``tcp:22``. Returns None for ``none``.

        Raises:
            InvalidParameter: the text is none of these, or the port is not from 1 to 65535.
        """
        if given == NO_CHECK:
            return None
        if given == AGENT:
            return cls()
        port = given.removeprefix(TCP)
        if (
            port == given
            or not port.isascii()
            or not port.isdigit()
            or len(port) > 5
            or not 0 < int(port) <= HIGHEST_PORT
        ):
            rule = "it must be agent, none, or tcp: and a port from 1 to 65535, such as tcp:22"
            raise InvalidParameter("healthcheck", given, rule)
        return cls(int(port))

    def __str__(self) -> str:
        """Return the text that ``read`` accepts."""
        return AGENT if self.port is None else f"{TCP}{self.port}"


@dataclass(frozen=True, slots=True)
class GuestHealth:
    """The health of a guest by its checks so far.

    Attributes:
        is_answering: whether the guest answered a recent check, which began after the last change of its VM's
            state.
        is_lost: whether the VM runs and its guest has not answered since its start for at least the timeout.
    """

    is_answering: bool = False
    is_lost: bool = False
