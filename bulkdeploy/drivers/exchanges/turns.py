"""Locks that admit one call at a time for each guest in this process, for hypervisors without such locks."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from uuid import UUID

from bulkdeploy.drivers.errors import DriverError


class Turns:
    """A lock per guest, so that this process runs only one call for a guest at a time.

    Calls of other processes are separated by fences.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[UUID, tuple[Lock, int]] = {}

    @contextmanager
    def of(self, guest_uuid: UUID, step: str, host: str, *, timeout_s: float) -> Iterator[None]:
        """Hold the lock of a guest within the context.

        ``step`` and ``host`` are for the error.

        Raises:
            DriverError: the lock was not free within ``timeout_s`` seconds. The error is unanswered, because the
                other call may change the guest.
        """
        with self._lock:
            turn, count = self._waiting.get(guest_uuid, (Lock(), 0))
            self._waiting[guest_uuid] = turn, count + 1
        try:
            if not turn.acquire(timeout=timeout_s):
                reason = "another call for the guest is under way"
                raise DriverError(step, host, reason, transient=True, unanswered=True)
            try:
                yield
            finally:
                turn.release()
        finally:
            with self._lock:
                turn, count = self._waiting.pop(guest_uuid)
                if count > 1:
                    self._waiting[guest_uuid] = turn, count - 1
