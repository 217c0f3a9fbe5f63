"""Calls of one guest, one at a time within a process: for drivers whose hypervisors do not keep them apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from uuid import UUID


class Turns:
    """Of one guest's calls in this process one goes on at a time; those of other processes meet at the fences."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[UUID, tuple[Lock, int]] = {}

    @contextmanager
    def of(self, guest_uuid: UUID) -> Iterator[None]:
        """The turn of a call of this guest's."""
        with self._lock:
            turn, count = self._waiting.get(guest_uuid, (Lock(), 0))
            self._waiting[guest_uuid] = turn, count + 1
        try:
            with turn:
                yield
        finally:
            with self._lock:
                turn, count = self._waiting.pop(guest_uuid)
                if count > 1:
                    self._waiting[guest_uuid] = turn, count - 1
