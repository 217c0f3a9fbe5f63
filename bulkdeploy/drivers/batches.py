"""Drivers that send many calls in one request, for hypervisors whose requests can contain several operations.

While requests are under way, the worker collects further calls and sends them together. For a driver that is not a
``BatchDriver``, the worker makes each call separately, in a thread of its own.
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
    """The arguments of one call of ``ensure_running``."""

    host: HostAddress
    guest: GuestSpec
    fence: int

    @property
    def guest_uuid(self) -> UUID:
        """The guest's uuid, so that all types of calls have an attribute of this name."""
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class StopCall:
    """The arguments of one call of ``ensure_stopped``."""

    host: HostAddress
    guest_uuid: UUID
    forced: bool
    fence: int


@dataclass(frozen=True, slots=True)
class RemoveCall:
    """The arguments of one call of ``ensure_absent``."""

    host: HostAddress | None
    guest_uuid: UUID
    volume_uuids: tuple[UUID, ...]
    fence: int


GuestCall = StartCall | StopCall | RemoveCall


def host_name(call: GuestCall) -> str:
    """Return the name of the call's host for error messages, or ANY_HOST if the call has no host."""
    return ANY_HOST if call.host is None else call.host.name


Answer = Callable[[], None]
"""A function that waits until one call of a batch has ended.

The function returns if the call succeeded and raises the call's own DriverError if the call failed. The function is
called once.
"""


class BatchDriver(HypervisorDriver):
    """A driver whose hypervisor accepts many calls at once.

    A subclass implements ``begin``.

    ``ensure_running``, ``ensure_stopped`` and ``ensure_absent`` are implemented by calls of ``begin``.

    Attributes:
        largest_batch: the largest number of calls that one call of ``begin`` receives.
        gathering_s: the seconds that a single call waits for other calls before the batch is sent. A value above 0
            is for hypervisors whose requests take much longer than this time.
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
            calls: at least one call.
            timeout_s: the time that each call may take in seconds, including sending and waiting.
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
    """Make one call with any driver, without a batch.

    Raises:
        DriverError: the call failed.
    """
    match call:
        case StartCall(host, guest, fence):
            driver.ensure_running(host, guest, fence=fence, timeout_s=timeout_s)
        case StopCall(host, guest_uuid, forced, fence):
            driver.ensure_stopped(host, guest_uuid, forced=forced, fence=fence, timeout_s=timeout_s)
        case RemoveCall(host, guest_uuid, volume_uuids, fence):
            driver.ensure_absent(host, guest_uuid, volume_uuids, fence=fence, timeout_s=timeout_s)
