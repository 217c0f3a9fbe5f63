"""The serialization of calls for one guest in a process, for hypervisors that do not serialize them."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from uuid import UUID

from bulkdeploy.drivers.errors import DriverError


class Turns:
    """A lock per guest, so that this process runs one call for a guest at a time.

    Fences separate the calls of other processes.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[UUID, tuple[Lock, int]] = {}

    @contextmanager
    def of(self, guest_uuid: UUID, step: str, host: str, *, timeout_s: float) -> Iterator[None]:
        """Yield the turn of a call of this guest's, which is about ``step`` at ``host``.

        Raises:
            DriverError: it did not come within ``timeout_s`` seconds (unanswered: what is under way may change it).
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
