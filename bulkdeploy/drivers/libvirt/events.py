"""The events of libvirt daemons about guests that end by themselves.

Each host has a separate connection for its events. A broken connection is opened again, at most every RETRY_S
seconds. Events in between are lost: events are only hints, and regular queries of the hosts find all ended guests.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt.connections import Deadline, Links
from bulkdeploy.drivers.libvirt.errors import libvirt

RETRY_S = 10.0

ENDED = (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_CRASHED)
"""The events of a guest that ended. A guest that migrates also causes such an event on its source host."""


@dataclass(slots=True)
class _Subscription:
    """The connection that receives the events of one host.

    The connection is None while it is being opened and if the host cannot be reached. If opening hangs, no second
    attempt is started, so that each host occupies at most one thread.
    """

    tried: float
    connection: Any | None = None
    is_opening: bool = True


class GuestEvents:
    """A receiver of hosts' events, which stores the guests that ended until ``ended`` is called.

    Threads may share the object.
    """

    def __init__(self, links: Links) -> None:
        self._links, self._lock = links, Lock()
        self._subscriptions: dict[HostAddress, _Subscription] = {}
        self._ended: set[UUID] = set()

    def ended(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """Return the guests that ended since the last call.

        From now on, events of exactly these hosts are received.
        """
        now = time.monotonic()
        with self._lock:
            opening = [host for host in hosts if self._must_open(host, now)]
            dropped = [host for host in self._subscriptions if host not in set(hosts)]
            replaced = [host for host in opening if host in self._subscriptions]
            closing = [self._subscriptions.pop(host).connection for host in [*dropped, *replaced]]
            self._subscriptions |= {host: _Subscription(now) for host in opening}
            ended, self._ended = frozenset(self._ended), set()
        _close(closing)
        for host in opening:
            Thread(target=self._open, args=(host,), name="libvirt-events", daemon=True).start()
        return ended

    def _must_open(self, host: HostAddress, now: float) -> bool:
        known = self._subscriptions.get(host)
        if known is None:
            return True
        if known.is_opening or (known.connection is not None and known.connection.isAlive()):
            return False
        return now - known.tried > RETRY_S

    def _open(self, host: HostAddress) -> None:
        """Subscribe to the events of a host. A host that cannot be reached is tried again later."""
        opened = None
        with suppress(DriverError), self._links.link(host).open_alone(host, Deadline(RETRY_S)) as call:
            with call.failing("look"):
                kind = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
                call.connection.domainEventRegisterAny(None, kind, self._on_event, None)
            opened = call.connection
        with self._lock:
            subscription = self._subscriptions.get(host)
            if subscription is not None:
                subscription.connection, subscription.is_opening = opened, False
        if subscription is None:
            _close([opened])

    def _on_event(self, _: Any, domain: Any, event: int, *__: Any) -> None:
        if event in ENDED:
            with self._lock:
                self._ended.add(UUID(bytes=domain.UUID()))

    def close(self) -> None:
        """Close the connections to all hosts."""
        with self._lock:
            closing, self._subscriptions = [one.connection for one in self._subscriptions.values()], {}
        _close(closing)


def _close(connections: Sequence[Any | None]) -> None:
    for connection in connections:
        if connection is not None:
            with suppress(libvirt.libvirtError):
                connection.close()
