"""Drivers that send many calls at once, for hypervisors whose requests can contain several operations.

The worker sends calls together that gather while others are under way; a driver that is no ``BatchDriver`` gets
each call by itself, from a thread of its own.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import ANY_HOST
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress


@dataclass(frozen=True, slots=True)
class StartCall:
    """A call of ``ensure_running``."""

    host: HostAddress
    guest: GuestSpec
    fence: int

    @property
    def guest_uuid(self) -> UUID:
        """The guest's uuid, under the same name as in other calls."""
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class StopCall:
    """A call of ``ensure_stopped``."""

    host: HostAddress
    guest_uuid: UUID
    forced: bool
    fence: int


@dataclass(frozen=True, slots=True)
class RemoveCall:
    """A call of ``ensure_absent``."""

    host: HostAddress | None
    guest_uuid: UUID
    volume_uuids: tuple[UUID, ...]
    fence: int


GuestCall = StartCall | StopCall | RemoveCall


def host_name(call: GuestCall) -> str:
    """Return the call's host, as errors name it."""
    return ANY_HOST if call.host is None else call.host.name


Answer = Callable[[], None]
"""Waits until one call of a batch has ended: returns, or raises the call's own DriverError. Called once."""


class BatchDriver(HypervisorDriver):
    """A driver whose hypervisor accepts many calls at once. Its method ``begin`` implements three methods for it.

    Attributes:
        largest_batch: most calls that ``begin`` is given.
        gathering_s: how long a call that comes alone waits for others, in seconds: for hypervisors to which a
            request costs far more than that.
    """

    largest_batch: ClassVar[int] = 100
    gathering_s: ClassVar[float] = 0.0

    @abstractmethod
    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """Send all these calls to the hypervisor, and return one answer per call in the same order.

        The calls may be of any type and for any hosts, with at most one call per guest. This method returns as soon
        as the calls are sent. Long waits for one guest belong into its answer, which the caller's own thread calls,
        so that no guest waits for another. A call that fails for any reason fails in its own answer. If the
        hypervisor received the calls and did not respond, each answer raises a DriverError that is ``unanswered``.

        Args:
            calls: at least one.
            timeout_s: how long each call may take, telling and waiting together.
        """

    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Start a guest as HypervisorDriver describes, with a batch of one call."""
        self._alone(StartCall(host, guest, fence), timeout_s)

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop a guest as HypervisorDriver describes, with a batch of one call."""
        self._alone(StopCall(host, guest_uuid, forced, fence), timeout_s)

    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        """Delete a guest as HypervisorDriver describes, with a batch of one call."""
        self._alone(RemoveCall(host, guest_uuid, tuple(volume_uuids), fence), timeout_s)

    def _alone(self, call: GuestCall, timeout_s: float) -> None:
        (answer,) = self.begin([call], timeout_s=timeout_s)
        answer()


def make_call(driver: HypervisorDriver, call: GuestCall, timeout_s: float) -> None:
    """Make one call without a batch, with any driver.

    Raises:
        DriverError: it failed.
    """
    match call:
        case StartCall(host, guest, fence):
            driver.ensure_running(host, guest, fence=fence, timeout_s=timeout_s)
        case StopCall(host, guest_uuid, forced, fence):
            driver.ensure_stopped(host, guest_uuid, forced=forced, fence=fence, timeout_s=timeout_s)
        case RemoveCall(host, guest_uuid, volume_uuids, fence):
            driver.ensure_absent(host, guest_uuid, volume_uuids, fence=fence, timeout_s=timeout_s)
