"""The combination of concurrent look-ups of one kind: one query serves all threads of a process.

Hundreds of polling clients repeat two queries: for their user, and for one job. While one thread executes a query,
the keys of other threads are collected, and the next query then answers all of them (``joined_requests``). Results
are not cached: each caller gets data from a query that began after its call. ADR 18 has the savings and the risks.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection

from bulkdeploy.processes.joined_requests import JoinedRequests, Unserved

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

OPTION = "bulkdeploy_coalescers"
PATIENCE_S = 1.0
"""A query takes a millisecond; one that takes so long is stuck, and others no longer wait for it."""
MOST_KEYS = 10_000

Read: TypeAlias = Callable[[Connection, Sequence[K]], Mapping[K, V]]
"""Finds rows by their keys, in one statement; a key without a row is not in the answer."""


class Coalescer(Generic[K, V]):
    """A combiner of look-ups from many threads: concurrent look-ups are served by one call of ``read``.

    Only one query runs at a time, except for queries that are stuck.
    """

    def __init__(self, read: Read[K, V], patience_s: float = PATIENCE_S) -> None:
        self._read = read
        self._requests: JoinedRequests[tuple[Connection, K], Mapping[K, V] | None] = JoinedRequests(
            self._read_together, largest=MOST_KEYS, patience_s=patience_s, longest_s=patience_s
        )

    @property
    def waiting(self) -> int:
        """The number of keys that wait for the next query."""
        return self._requests.waiting

    def find(self, connection: Connection, key: K) -> V | None:
        """Return the object with this key, or None if there is none.

        Threads share the object and must not change it.
        """
        try:
            found = self._requests.run((connection, key))
        except Unserved:
            found = None
        # one caller's connection or key failed, so each caller reads alone and gets its own error
        if found is None:
            found = self._read(connection, [key])
        return found.get(key)

    def _read_together(self, requests: Sequence[tuple[Connection, K]]) -> Sequence[Mapping[K, V] | None]:
        """Return the result of one query for each request: all objects by key, or None if the query failed.

        The query uses the connection of the first request.
        """
        connection, keys = requests[0][0], dict.fromkeys(key for _, key in requests)
        try:
            found: Mapping[K, V] | None = self._read(connection, list(keys))
        except Exception:  # noqa: BLE001 - whatever it is, each caller's own query raises it again
            found = None
        return [found] * len(requests)


class Coalescers:
    """The coalescers of one engine, one for each read function."""

    def __init__(self) -> None:
        self._by_read: dict[Read[Any, Any], Coalescer[Any, Any]] = {}

    def of(self, read: Read[K, V]) -> Coalescer[K, V]:
        """Return the coalescer of this function."""
        found = self._by_read.get(read)
        return self._by_read.setdefault(read, Coalescer(read)) if found is None else found


def find_coalesced(connection: Connection, read: Read[K, V], key: K) -> V | None:
    """Return the object that ``read`` finds for ``key``, or None if there is none.

    On connections of a reading engine, the look-up is combined with those of other threads.
    """
    readings = connection.get_execution_options().get(OPTION)
    if not isinstance(readings, Coalescers):
        return read(connection, [key]).get(key)
    return readings.of(read).find(connection, key)
