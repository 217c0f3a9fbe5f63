"""One look at the database for all threads of a process that want the same kind of thing at the same moment.

Hundreds of clients that poll ask for two things, again and again: who they are, and one job. While one thread
looks, the others who come gather, and one of them then looks for all. Under load a statement so answers as many
calls as there are threads; a call that comes alone waits for nobody. Nothing is remembered: whoever asks gets what
was committed before the look began, and it begins after he asked.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

OPTION = "bulkdeploy_shared_readings"

Read: TypeAlias = Callable[[Connection, Sequence[K]], Mapping[K, V]]
"""Finds things by their keys, in one statement; what is not there is not in the answer."""


def _held() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


@dataclass(slots=True)
class _Look(Generic[K, V]):
    """Those who look together; ``found`` is None where the look failed.

    ``over`` is held until it is over: who can take it knows so, and lets the next one know. (An Event is made in
    Python, and two of them are a tenth of a poll.)
    """

    keys: dict[K, None] = field(default_factory=dict)
    is_led: bool = False
    over: Lock = field(default_factory=_held)
    found: Mapping[K, V] | None = None


class SharedReading(Generic[K, V]):
    """What ``read`` finds, for any number of threads; one look at a time."""

    def __init__(self, read: Read[K, V]) -> None:
        self._read = read
        self._gathering = Lock()
        self._looking = Lock()
        self._next: _Look[K, V] = _Look()

    def find(self, connection: Connection, key: K) -> V | None:
        """What ``key`` names, or None. The values may be shared with other threads: they are not to be changed."""
        with self._gathering:
            look = self._next
            look.keys[key] = None
            leads, look.is_led = not look.is_led, True
        if leads:
            self._lead(connection, look)
        else:
            with look.over:
                pass
        if look.found is None:  # by whosever connection or key: each is told of his own, and of no other's
            return self._read(connection, [key]).get(key)
        return look.found.get(key)

    def _lead(self, connection: Connection, look: _Look[K, V]) -> None:
        with self._looking:
            with self._gathering:
                self._next = _Look()
            try:
                with suppress(Exception):
                    look.found = self._read(connection, list(look.keys))
            finally:
                look.over.release()


class SharedReadings:
    """All shared readings of one engine."""

    def __init__(self) -> None:
        self._by_read: dict[Read[Any, Any], SharedReading[Any, Any]] = {}

    def of(self, read: Read[K, V]) -> SharedReading[K, V]:
        """The one of this function."""
        found = self._by_read.get(read)
        return self._by_read.setdefault(read, SharedReading(read)) if found is None else found


def find_shared(connection: Connection, read: Read[K, V], key: K) -> V | None:
    """What ``read`` finds for ``key``: shared on connections that only read, alone on all others."""
    readings = connection.get_execution_options().get(OPTION)
    if not isinstance(readings, SharedReadings):
        return read(connection, [key]).get(key)
    return readings.of(read).find(connection, key)
