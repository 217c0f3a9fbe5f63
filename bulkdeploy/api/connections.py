"""The limits on open connections: for each client address, and for the whole process.

When a limit is exceeded, the connection that has waited longest for a request is closed. A connection whose call is
being answered is never closed. So a client that keeps many idle connections open cannot lock out other clients,
even if they share its address.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from bulkdeploy.domain.networks.source_networks import source_of

EVICTION_DELAY_S = 0.2
"""The seconds for which a new connection is never closed.

The event loop accepts all new connections before it reads their first bytes. A client that wants an answer has sent
its request within this time, so its connection does not count as waiting.
"""


class Connection(Hashable, Protocol):
    """A connection that is counted by ``Connections``."""

    def evict(self) -> None:
        """Close the connection without an answer."""


@dataclass(slots=True)
class _Group:
    """Connections that share a limit.

    Attributes:
        bound: the most connections that the group may have.
        count: the number of its open connections.
        new: the waiting connections that have had no request yet, in the order in which they began to wait, with
            the time.
        kept: the waiting connections that have had a request, in the same form.
    """

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
        """Return the connection that has waited longest, if it began to wait before the time ``before``.

        Connections that have had no request yet are preferred. None if no connection has waited since that time.
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
    """The open connections of one process.

    Only the event loop of the process may use the object.

    Args:
        most: the most connections of the process.
        most_per_address: the most connections from one client address.
        is_proxy: returns whether an address is that of a trusted proxy; such an address has no limit of its own.
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

        ``kept`` is True if the connection has already had a request.
        """
        for group in self._groups.get(connection, ()):
            group.add_waiting(connection, self._loop.time(), kept=kept)

    def works(self, connection: Connection) -> bool:
        """Record that a connection's request has arrived completely and is being answered.

        Returns False if the request must be rejected because too many requests are already being answered.
        """
        groups = self._groups.get(connection, ())
        for group in groups:
            group.remove_waiting(connection)
        return all(group.working <= group.bound for group in groups)

    def closed(self, connection: Connection) -> None:
        """Record that a connection is closed. A second call for the same connection has no effect."""
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
        """Close waiting connections of a full group after two more rounds of the event loop.

        By then, the event loop has read the input of connections that have just sent a request.
        """
        before = self._loop.time() - EVICTION_DELAY_S
        self._loop.call_soon(self._loop.call_soon, self._put_out, group, before)

    def _put_out(self, group: _Group, before: float) -> None:
        self._crowded.discard(id(group))
        while group.count > group.bound and (victim := group.longest_waiting(before)) is not None:
            self.closed(victim)
            victim.evict()
        self._look_after(group)
