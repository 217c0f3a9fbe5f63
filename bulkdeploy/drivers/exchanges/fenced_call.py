"""A driver call for one guest, for drivers whose hypervisors cannot compare fences themselves."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.errors import ANY_HOST, DriverError, StaleFence
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import FencedGuest, Fences, HostDeclaredOffError, Overtaken

LEAST_S = 0.1
"""The time that a step may take even if the time of the call has run out, in seconds."""


class FencedCall:
    """A driver call for a guest, with a fence that makes earlier calls fail.

    ``host`` is None for a call at any host. ``end`` is the deadline on the clock of ``time.monotonic``.
    """

    def __init__(
        self, fences: Fences, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> None:
        self.fences, self.host, self.guest, self.fence = fences, host, guest_uuid, fence
        self.end = time.monotonic() + timeout_s

    @property
    def host_name(self) -> str:
        """The host's name for error messages."""
        return ANY_HOST if self.host is None else self.host.name

    @property
    def left(self) -> float:
        """The remaining time of the call in seconds, at least LEAST_S."""
        return max(self.end - time.monotonic(), LEAST_S)

    @property
    def is_over(self) -> bool:
        """True if the time of the call has run out."""
        return time.monotonic() > self.end

    def error(self, step: str, why: str, *, transient: bool = False) -> DriverError:
        """Return a DriverError for this call. ``why`` is the reason."""
        return DriverError(step, self.host_name, why, transient=transient)

    def stale(self, step: str) -> StaleFence:
        """Return the error for a call whose fence is lower than that of a later call."""
        text = f"fence {self.fence} of guest {self.guest} was overtaken"
        return StaleFence(step, self.host_name, text, transient=False)

    def raise_fence(self, step: str) -> FencedGuest:
        """Record this call's fence for the guest, so that older calls fail, and return the record of the guest.

        Raises:
            StaleFence: a call with a higher fence was made already.
        """
        with self._overtaking(step):
            return self.fences.raise_fence(self.guest, self.fence)

    def fenced_here(self, step: str) -> FencedGuest:
        """Record this call's fence, check that the guest is on the call's host, and return the guest's record.

        Raises:
            DriverError: the guest is on another host, or a call with a higher fence was made already.
        """
        where = self.raise_fence(step)
        self._check_host(step, where)
        return where

    def raise_fence_elsewhere(self, step: str) -> FencedGuest:
        """Record this call's fence for a guest that does not belong to the call's host, and return its record.

        Raises:
            DriverError: the guest belongs to the call's host, or a call with a higher fence was made already.
        """
        where = self.raise_fence(step)
        if self.host is not None and self.host.uuid in where.host_uuids:
            raise self.error(step, f"guest {self.guest} belongs to this host")
        return where

    def record_absence(self, where: FencedGuest) -> None:
        """Record that a guest which does not exist any more is on no host and has no volumes.

        ``where`` is the guest's record. Nothing is written if the record contains no host.
        """
        if where.host_uuids:
            self.fences.release(self.guest, self.fence)

    def claim(self, step: str, volume_uuids: Collection[UUID]) -> FencedGuest:
        """Record this call's fence, the call's host and these volumes for the guest, and return its record.

        Raises:
            DriverError: the guest is on another host, other guests have some of the volumes, the host was declared
                off, or a call with a higher fence was made already.
        """
        if self.host is None:
            raise self.error(step, "no host is named")
        with self._overtaking(step):
            where, taken = self.fences.claim(self.guest, self.host.uuid, volume_uuids, self.fence)
        self._check_host(step, where)
        if taken:
            raise self.error(step, f"other guests use volumes {', '.join(map(str, sorted(taken)))}")
        return where

    def move(self, step: str, host: HostAddress, destination: HostAddress | None) -> None:
        """Record that the guest is on ``host`` and, unless ``destination`` is None, moves to ``destination``.

        Raises:
            DriverError: a call with a higher fence was made already, or a host was declared off.
        """
        with self._overtaking(step):
            self.fences.move(self.guest, host.uuid, None if destination is None else destination.uuid, self.fence)

    def store_details(self, step: str, details: Mapping[str, Any]) -> None:
        """Replace the stored details of the guest.

        Raises:
            StaleFence: a call with a higher fence was made already.
        """
        with self._overtaking(step):
            self.fences.store_details(self.guest, details, self.fence)

    def check_fence(self, step: str) -> None:
        """Raise StaleFence if a call with a higher fence was made already."""
        if not self.fences.is_highest(self.guest, self.fence):
            raise self.stale(step)

    def elsewhere(self, step: str) -> DriverError:
        """Return the error for a guest that is on another host than the call's."""
        return self.error(step, f"guest {self.guest} is on another host")

    def _check_host(self, step: str, where: FencedGuest) -> None:
        if self.host is not None and where.host_uuids and self.host.uuid not in where.host_uuids:
            raise self.elsewhere(step)

    @contextmanager
    def _overtaking(self, step: str) -> Iterator[None]:
        """Convert errors of the records within the context.

        Overtaken becomes StaleFence, and HostDeclaredOffError becomes a transient DriverError.
        """
        try:
            yield
        except Overtaken as error:
            raise self.stale(step) from error
        except HostDeclaredOffError as error:
            raise self.error(step, str(error), transient=True) from error
