"""Request coalescing: one look at the database for all threads of a process that want the same kind of thing.

Hundreds of clients that poll ask for two things, again and again: who they are, and one job. While one thread
looks, others who come gather, and one of them then looks for all. Under load a statement so answers as many
calls as there are threads; a call that comes alone does not wait. Nothing is remembered: each call gets what
was committed before the look began, and it begins after he asked. ADR 18 has what it saves, and what can go wrong.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

OPTION = "bulkdeploy_coalescers"
PATIENCE_S = 1.0
"""A look takes a millisecond; one that takes so long is stuck, and others no longer wait for it."""

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


class Coalescer(Generic[K, V]):
    """What ``read`` finds, for any number of threads; one look at a time, but for those that are stuck."""

    def __init__(self, read: Read[K, V], patience_s: float = PATIENCE_S) -> None:
        self._read, self._patience_s = read, patience_s
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
        elif look.over.acquire(timeout=2 * self._patience_s):
            look.over.release()
        if look.found is None:  # by whosever connection or key: each is told of his own, and of no other's
            return self._read(connection, [key]).get(key)
        return look.found.get(key)

    def _lead(self, connection: Connection, look: _Look[K, V]) -> None:
        looking = self._looking
        if not looking.acquire(timeout=self._patience_s):
            # Only the leader of the next look waits here, so no other thread replaces it meanwhile.
            looking = self._looking = _held()
        try:
            with self._gathering:
                self._next = _Look()
            with suppress(Exception):
                look.found = self._read(connection, list(look.keys))
        finally:
            look.over.release()
            looking.release()


class Coalescers:
    """All coalesced reads of one engine."""

    def __init__(self) -> None:
        self._by_read: dict[Read[Any, Any], Coalescer[Any, Any]] = {}

    def of(self, read: Read[K, V]) -> Coalescer[K, V]:
        """The one of this function."""
        found = self._by_read.get(read)
        return self._by_read.setdefault(read, Coalescer(read)) if found is None else found


def find_coalesced(connection: Connection, read: Read[K, V], key: K) -> V | None:
    """What ``read`` finds for ``key``: shared on connections that only read, alone on all others."""
    readings = connection.get_execution_options().get(OPTION)
    if not isinstance(readings, Coalescers):
        return read(connection, [key]).get(key)
    return readings.of(read).find(connection, key)
