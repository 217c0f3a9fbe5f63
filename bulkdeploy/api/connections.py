"""Bounds of connections per client address and in all. At a bound, a waiting connection is closed for a new one.

A connection either waits for a request (or for the rest of one), or its call is being answered. Who waits makes
room for who comes: the newest connection is the one most likely to send a request now. So somebody who holds as
many connections as it can keeps no other client out, not even others behind the same address.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from bulkdeploy.domain.networks.source_networks import source_of

EVICTION_DELAY_S = 0.2
"""No connection is closed before it has been open for so long: the loop accepts all that come before it reads what
the first of them said. Who wants to be answered has sent its request by then, and is not among those that wait."""


class Connection(Hashable, Protocol):
    """A connection that is counted."""

    def evict(self) -> None:
        """Close the connection without an answer."""


@dataclass(slots=True)
class _Group:
    """Connections that share a limit. Waiting connections are in the order in which they began to wait."""

    bound: int
    count: int = 0
    new: dict[Connection, float] = field(default_factory=dict)
    kept: dict[Connection, float] = field(default_factory=dict)

    def add_waiting(self, connection: Connection, since: float, *, kept: bool) -> None:
        (self.kept if kept else self.new)[connection] = since

    def remove_waiting(self, connection: Connection) -> None:
        self.new.pop(connection, None)
        self.kept.pop(connection, None)

    def longest_waiting(self, before: float) -> Connection | None:
        """Return the connection that has waited longest since before ``before``, or None.

        Connections that have not sent a complete request yet come first.
        """
        for waiting in (self.new, self.kept):
            connection = next(iter(waiting), None)
            if connection is not None and waiting[connection] < before:
                return connection
        return None

    @property
    def working(self) -> int:
        return self.count - len(self.new) - len(self.kept)


class Connections:
    """The connections of one process. Only the event loop of the process may use it.

    Args:
        most: bound of all together.
        most_per_address: bound of those from one address.
        is_proxy: whether an address is that of a trusted proxy, which has no bound of its own.
        loop: the event loop.
    """

    def __init__(
        self,
        most: int,
        most_per_address: int,
        is_proxy: Callable[[str], bool],
        loop: AbstractEventLoop,
    ) -> None:
        self._most_per_address, self._is_proxy, self._loop = most_per_address, is_proxy, loop
        self._all = _Group(most)
        self._by_address: dict[str, _Group] = {}
        self._groups: dict[Connection, tuple[_Group, ...]] = {}
        self._address: dict[Connection, str] = {}
        self._crowded: set[int] = set()

    def opened(self, connection: Connection, address: str) -> None:
        """Count a new connection. If it exceeds a limit, another connection is closed soon."""
        groups = [self._all]
        if not self._is_proxy(address):
            source = self._address[connection] = source_of(address)
            groups.append(self._by_address.setdefault(source, _Group(self._most_per_address)))
        self._groups[connection] = tuple(groups)
        for group in groups:
            group.count += 1
            self._look_after(group)
        self.waits(connection, kept=False)

    def waits(self, connection: Connection, *, kept: bool = True) -> None:
        """Record that a connection waits for a request.

        ``kept`` is True if the connection has had a request before.
        """
        for group in self._groups.get(connection, ()):
            group.add_waiting(connection, self._loop.time(), kept=kept)

    def works(self, connection: Connection) -> bool:
        """Note that the request of a connection is whole.

        Return False if as many connections as allowed are already being answered.
        """
        groups = self._groups.get(connection, ())
        for group in groups:
            group.remove_waiting(connection)
        return all(group.working <= group.bound for group in groups)

    def closed(self, connection: Connection) -> None:
        """Note that a connection is closed. A second note about the same connection changes nothing."""
        for group in self._groups.pop(connection, ()):
            group.remove_waiting(connection)
            group.count -= 1
        source = self._address.pop(connection, None)
        if source is not None and not self._by_address[source].count:
            del self._by_address[source]

    def _look_after(self, group: _Group) -> None:
        if group.count > group.bound and id(group) not in self._crowded:
            self._crowded.add(id(group))
            self._loop.call_later(EVICTION_DELAY_S, self._evict, group)

    def _evict(self, group: _Group) -> None:
        """Close connections that have waited, once the loop has read their input: in two rounds."""
        before = self._loop.time() - EVICTION_DELAY_S
        self._loop.call_soon(self._loop.call_soon, self._put_out, group, before)

    def _put_out(self, group: _Group, before: float) -> None:
        self._crowded.discard(id(group))
        while group.count > group.bound and (victim := group.longest_waiting(before)) is not None:
            self.closed(victim)
            victim.evict()
        self._look_after(group)
