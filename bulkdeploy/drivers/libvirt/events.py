"""What daemons say of guests that end by themselves, as they say it.

One connection to each host, of its own, hears its events; one that breaks is opened anew, not more often than every
RETRY_S. What happens meanwhile is not heard: events are hints, and looks at hosts find what they missed.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt.connections import Deadline, Links
from bulkdeploy.drivers.libvirt.errors import libvirt

RETRY_S = 10.0

ENDED = (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_CRASHED)
"""A guest that was moved ends where it was, too: an event is a reason to look, no more."""


@dataclass(slots=True)
class _Ear:
    """A connection that hears a host; None: it is being opened, or could not be.

    One that hangs as it is opened is waited for: a host holds no more than one thread.
    """

    tried: float
    connection: Any | None = None
    is_opening: bool = True


class GuestEvents:
    """Hears hosts, and remembers which guests ended until it is asked. Safe to share between threads."""

    def __init__(self, links: Links) -> None:
        self._links, self._lock = links, Lock()
        self._ears: dict[HostAddress, _Ear] = {}
        self._ended: set[UUID] = set()

    def ended(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """The guests that ended since the last call; from now on these hosts are heard, and no others."""
        now = time.monotonic()
        with self._lock:
            deaf = [host for host in self._ears if host not in set(hosts)]
            closing = [self._ears.pop(host).connection for host in deaf]
            opening = [host for host in hosts if self._must_open(host, now)]
            self._ears |= {host: _Ear(now) for host in opening}
            ended, self._ended = frozenset(self._ended), set()
        _close(closing)
        for host in opening:
            Thread(target=self._open, args=(host,), name="libvirt-hears", daemon=True).start()
        return ended

    def _must_open(self, host: HostAddress, now: float) -> bool:
        ear = self._ears.get(host)
        if ear is None:
            return True
        if ear.is_opening or (ear.connection is not None and ear.connection.isAlive()):
            return False
        return now - ear.tried > RETRY_S

    def _open(self, host: HostAddress) -> None:
        """Hear a host; one that can not be reached is tried again later."""
        heard = None
        with suppress(DriverError), self._links.link(host).open_alone(host, Deadline(RETRY_S)) as call:
            with call.failing("look"):
                kind = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
                call.connection.domainEventRegisterAny(None, kind, self._hear, None)
            heard = call.connection
        with self._lock:
            ear = self._ears.get(host)
            if ear is not None:
                ear.connection, ear.is_opening = heard, False
        if ear is None:
            _close([heard])

    def _hear(self, _: Any, domain: Any, event: int, *__: Any) -> None:
        if event in ENDED:
            with self._lock:
                self._ended.add(UUID(bytes=domain.UUID()))

    def close(self) -> None:
        """Hear nothing any more."""
        with self._lock:
            closing, self._ears = [ear.connection for ear in self._ears.values()], {}
        _close(closing)


def _close(connections: Sequence[Any | None]) -> None:
    for connection in connections:
        if connection is not None:
            with suppress(libvirt.libvirtError):
                connection.close()
