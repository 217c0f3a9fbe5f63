"""Connections to libvirt daemons: pooled, kept alive and reopened.

Every call has a timeout.

Calls of libvirt's Python binding have no timeout. Each driver call to a host therefore runs in a thread of its own.
The caller waits until its timeout and then continues; the thread ends when libvirt returns, which keepalive ensures
even if the daemon hangs. Before each change, the thread checks whether there is time left (``HostCall.go_on``). The
number of concurrent calls to one host is limited, and so is the number of threads that a hanging host can occupy.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Lock, Semaphore, Thread
from typing import Any, TypeVar
from uuid import UUID

import structlog

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt.errors import failing_at, libvirt
from bulkdeploy.drivers.libvirt.host_url import HostUrlError, read_host_url
from bulkdeploy.drivers.libvirt.options import LibvirtOptions

log = structlog.get_logger(__name__)

T = TypeVar("T")

CALLS_PER_CONNECTION = 4
"""The number of concurrent calls on one connection.

A daemon executes five calls of a connection at once (max_client_requests), and keepalive needs one of them.
"""

SILENT_PROBES = 2
"""The number of unanswered keepalive probes after which a connection is broken."""

_starting = Lock()
_running: list[Thread] = []


def _run_event_loop() -> None:
    while True:
        with suppress(libvirt.libvirtError):
            libvirt.virEventRunDefaultImpl()


def _start_event_loop() -> None:
    """Start the process's event loop, which keepalive and events need, unless it runs already."""
    with _starting:
        if not _running:
            libvirt.registerErrorHandler(
                lambda *_: None, None
            )  # errors are raised, and not also printed on standard error
            libvirt.virEventRegisterDefaultImpl()
            _running.append(Thread(target=_run_event_loop, name="libvirt-events", daemon=True))
            _running[0].start()


class Deadline:
    """The time at which a call must have ended. The thread that waits for the call may give up earlier."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def left_s(self) -> float:
        """Return the remaining time in seconds, or 0 if the deadline has passed."""
        return max(0.0, self._ends - time.monotonic())


@dataclass(slots=True)
class _Connection:
    """An open connection to a libvirt daemon, with the pools that are known to be active on it."""

    libvirt: Any
    pools: dict[UUID, Any] = field(default_factory=dict)
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class HostCall:
    """A driver call for one host, with a connection to the host's daemon."""

    host: HostAddress
    connection: Any
    pools: dict[UUID, Any]
    deadline: Deadline

    def go_on(self, step: str) -> None:
        """Check before a change that the time of the call has not run out.

        Raises:
            DriverError: the time has run out.
        """
        if not self.deadline.left_s():
            raise DriverError(step, self.host.name, "the time of the call has run out", transient=True)

    def failing(self, step: str) -> Any:
        """Return a context manager that converts errors of libvirt to errors of this step and host."""
        return failing_at(step, self.host.name)


class Link:
    """The connections to one host. Threads may share the object."""

    def __init__(self, url: str, most: int, keepalive_s: int) -> None:
        self._url, self._most, self._keepalive_s = url, most, keepalive_s
        self._slots = Semaphore(most * CALLS_PER_CONNECTION)
        self._lock = Lock()
        self._open: list[_Connection] = []

    @contextmanager
    def borrow(self, host: HostAddress, deadline: Deadline) -> Iterator[HostCall]:
        """Yield a call with a connection that has a free slot.

        Raises:
            DriverError: no connection can be opened, or no slot became free in time.
        """
        if not self._slots.acquire(timeout=deadline.left_s()):
            reason = f"{self._most * CALLS_PER_CONNECTION} calls to the host are running, and none ended in time"
            raise DriverError("connect", host.name, reason, transient=True)
        try:
            used = self._take(host)
            try:
                yield HostCall(host, used.libvirt, used.pools, deadline)
            finally:
                self._give_back(used)
        finally:
            self._slots.release()

    @contextmanager
    def open_alone(self, host: HostAddress, deadline: Deadline) -> Iterator[HostCall]:
        """Yield a call with a new connection for a long operation of one caller.

        The connection is closed if the block raises an error. Otherwise the caller closes the connection.

        Raises:
            DriverError: the connection cannot be opened.
        """
        opened = self._connect(host)
        try:
            yield HostCall(host, opened, {}, deadline)
        except BaseException:
            _close(opened)
            raise

    def _connect(self, host: HostAddress) -> Any:
        _start_event_loop()
        with failing_at("connect", host.name):
            opened = libvirt.open(self._url)
            opened.setKeepAlive(self._keepalive_s, SILENT_PROBES)
        return opened

    def _take(self, host: HostAddress) -> _Connection:
        with self._lock:
            self._open = [one for one in self._open if one.libvirt.isAlive()]
            free = [one for one in self._open if one.in_flight < CALLS_PER_CONNECTION]
            if free:
                free[0].in_flight += 1
                return free[0]
        opened = _Connection(self._connect(host), in_flight=1)
        with self._lock:
            self._open.append(opened)
        return opened

    def _give_back(self, used: _Connection) -> None:
        with self._lock:
            used.in_flight -= 1
            idle = [one for one in self._open if not one.in_flight]
            if len(idle) < 2:
                return
            self._open.remove(idle[-1])
        _close(idle[-1].libvirt)

    def close(self) -> None:
        """Close all open connections of this link."""
        with self._lock:
            closing, self._open = self._open, []
        for one in closing:
            _close(one.libvirt)


def _close(connection: Any) -> None:
    with suppress(libvirt.libvirtError):
        connection.close()


class Links:
    """The connections to all hosts, by URL. Each URL is one host. Threads may share the object."""

    def __init__(self, options: LibvirtOptions) -> None:
        self._options = options
        self._lock = Lock()
        self._links: dict[str, Link] = {}

    def link(self, host: HostAddress) -> Link:
        """Return the link to a host.

        Raises:
            DriverError: the host has no URL, or its URL is not allowed.
        """
        if host.url is None:
            raise DriverError(
                "connect", host.name, "the host has no url; add it with addHost url=", transient=False
            )
        try:
            url = read_host_url(host.url, self._options).write()
        except HostUrlError as error:
            raise DriverError("connect", host.name, str(error), transient=False) from error
        with self._lock:
            if url not in self._links:
                options = self._options
                self._links[url] = Link(url, options.connections_per_host, options.keepalive_seconds)
            return self._links[url]

    def call(self, step: str, host: HostAddress, deadline: Deadline, work: Callable[[HostCall], T]) -> T:
        """Run ``work`` with a connection to ``host`` in the current thread, and return its result.

        Raises:
            DriverError: ``work`` or the connection failed.
        """
        with self.link(host).borrow(host, deadline) as call, call.failing(step):
            return work(call)

    def run(self, step: str, host: HostAddress, deadline: Deadline, work: Callable[[HostCall], T]) -> T:
        """Run ``work`` with a connection to ``host`` in a new thread, and return its result.

        Raises:
            DriverError: ``work`` failed, or it did not end in time and may still take effect (unanswered).
        """
        return in_time(step, host.name, deadline, lambda: self.call(step, host, deadline, work))

    def close(self) -> None:
        """Close the connections to all hosts."""
        with self._lock:
            closing, self._links = self._links, {}
        for link in closing.values():
            link.close()


def in_time(step: str, host: str, deadline: Deadline, work: Callable[[], T]) -> T:
    """Run ``work`` in a new thread, and return its result.

    If the deadline passes, the thread is abandoned and continues in the background.

    Raises:
        DriverError: the deadline has passed (unanswered). Errors of ``work`` are raised unchanged.
    """
    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            ended.set_exception(error)

    # The thread gets a copy of the context, so that its log events contain the request id.
    Thread(target=copy_context().run, args=(run,), name=f"libvirt-{step}", daemon=True).start()
    if not wait((ended,), deadline.left_s() + 0.05).done:
        raise DriverError(step, host, "no answer in time", transient=True, unanswered=True)
    return ended.result()
