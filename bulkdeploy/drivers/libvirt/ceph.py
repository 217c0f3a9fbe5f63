"""Images of a Ceph pool, managed by the programs ``rbd`` and ``ceph`` on this machine.

libvirt cannot write into images and takes no snapshots of them, so the service reaches Ceph itself, as OpenStack's
volume service does (docs/adr/0068-ceph.md). The key of the user is in the environment of the programs, never among
their arguments, which every user of the machine can read.
"""

import errno
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import UUID

import structlog

from bulkdeploy.domain.virtual_machines.usage import PoolUsage
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.records import Pool
from bulkdeploy.processes.run_program import ProgramEnd, ProgramKilled, ProgramNotRun, run_program

log = structlog.get_logger(__name__)

CONNECT_S = 15
"""The time within which a monitor must answer, in seconds."""

BLOCKED_S = 7 * 24 * 3600
"""The time for which a client stays blocked, in seconds.

Within this time, a host that was cut off must be stopped or reconnected.
"""

SIZES_KEPT_S = 30.0
FAILURES_KEPT_S = 5.0 * CONNECT_S
"""The time for which a cluster that did not answer is not measured again, in seconds."""

LONGEST_COMPLAINT = 500
DEFAULT_PORT = 6789
FEATURES = "layering,exclusive-lock,object-map,fast-diff,deep-flatten"
"""Features of images, whatever the cluster's defaults are. With exclusive locks one client at a time writes."""

PERMANENT = frozenset({errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOTSUP})
"""The numbers of system errors that a retry cannot resolve."""

NAMED_ERROR = re.compile(r"\[errno (\d+)\]|\bError (E[A-Z0-9]+)")
"""The pattern of a system error in the output of ``ceph``, by number or by name."""


class CephError(Exception):
    """Raised when a program of Ceph fails.

    ``code`` is the number of a system error. It is None if the program did not run or named no system error.
    """

    def __init__(self, reason: str, code: int | None = None, *, transient: bool | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.transient = code not in PERMANENT if transient is None else transient


class CephPool:
    """A pool of a Ceph cluster.

    Args:
        pool: the pool with its monitors and credentials.
        left_s: returns the remaining time for a program in seconds.
    """

    def __init__(self, pool: Pool, left_s: Callable[[], float]) -> None:
        self.name = (pool.path or "").strip("/")
        self.monitors = [_host_and_port(one) for one in (pool.server or "").split(",")]
        self._pool, self._left_s = pool, left_s

    def image(self, name: str) -> str:
        """Return the name of an image with its pool, as Ceph's programs and QEMU write it."""
        return f"{self.name}/{name}"

    def rbd(self, *arguments: str, given: bytes = b"") -> str:
        """Run ``rbd`` and return its output.

        Raises:
            CephError: the program failed.
        """
        return self._run("rbd", *arguments, given=given)

    def query(self, *arguments: str) -> Any:
        """Run ``rbd`` and return its output, which is JSON.

        Raises:
            CephError: the program failed.
        """
        return json.loads(self._run("rbd", *arguments, "--format", "json"))

    def is_done(self, *arguments: str, given: bytes = b"", unless: int) -> bool:
        """Run ``rbd``, and return True.

        Return False if it fails with the code ``unless``.

        Raises:
            CephError: the program failed with another code.
        """
        try:
            self.rbd(*arguments, given=given)
        except CephError as error:
            if error.code != unless:
                raise
            return False
        return True

    def info(self, name: str) -> dict[str, Any] | None:
        """Return the output of ``rbd info`` for an image, or None if the image does not exist."""
        return self._find("info", name)

    def clients_of(self, name: str) -> list[str]:
        """Return the addresses of the clients that have an image open for writing.

        Returns an empty list if the image does not exist.
        """
        status = self._find("status", name)
        return [] if status is None else [str(watcher["address"]) for watcher in status["watchers"]]

    def _find(self, command: str, name: str) -> dict[str, Any] | None:
        """Return the output of an ``rbd`` command for an image, or None if the image does not exist."""
        try:
            found: dict[str, Any] = self.query(command, self.image(name))
        except CephError as error:
            if error.code != errno.ENOENT:
                raise
            return None
        return found

    def block(self, clients: Sequence[str]) -> None:
        """Add clients to the cluster's blocklist, so that the cluster rejects all their further requests."""
        for client in clients:
            log.warning("ceph_client_blocked", pool=self._pool.name, client=client)
            self._run("ceph", "osd", "blocklist", "add", client, str(BLOCKED_S))

    def size(self) -> PoolUsage:
        """Return the size and the usage of the pool, without replicas.

        Raises:
            CephError: the cluster does not have the pool, or does not answer.
        """
        reported = json.loads(self._run("ceph", "df", "--format", "json"))
        for one in reported["pools"]:
            if one["name"] == self.name:
                used = int(one["stats"]["stored"])
                return PoolUsage(used, used + int(one["stats"]["max_avail"]))
        raise CephError(f"the Ceph cluster has no pool {self.name}", transient=False)

    def _run(self, program: str, *arguments: str, given: bytes = b"") -> str:
        left_s = self._left_s()
        if not left_s:
            raise CephError("the time of the call has run out")
        try:
            end = run_program(
                [program, *arguments],
                timeout_s=left_s,
                most_bytes=1 << 26,
                environment=self._environment,
                given=given,
            )
        except ProgramNotRun as error:
            reason = f"{error}: install ceph-common on every machine with workers, sweepers or the API"
            raise CephError(reason, transient=False) from error
        except ProgramKilled as error:
            raise CephError(f"{program} {arguments[0]}: {error}") from error
        if end.code:
            raise CephError(
                self._complaint(program, arguments[0], end.complained or end.how), _error_number(program, end)
            )
        return end.printed

    @property
    def _environment(self) -> dict[str, str]:
        """The environment variables with which programs connect to the cluster without any local file."""
        monitors = ",".join(f"{host}:{port}" for host, port in self.monitors)
        arguments = ["-m", monitors, "--client-mount-timeout", str(CONNECT_S)]
        arguments += ["--log-to-stderr=false", "--err-to-stderr=false"]
        if self._pool.user is not None:
            arguments += ["--id", self._pool.user, "--key", self._pool.secret or ""]
        return {"CEPH_ARGS": " ".join(arguments), "CEPH_CONF": "/dev/null"}

    def _complaint(self, program: str, verb: str, complained: str) -> str:
        lines = [line for line in complained.replace("\r", "\n").splitlines() if line.strip() and "%" not in line]
        complaint = f"{program} {verb}: {'; '.join(lines)}"
        if self._pool.secret:
            complaint = complaint.replace(self._pool.secret, "***")
        return complaint[:LONGEST_COMPLAINT]


@dataclass(slots=True)
class _KnownSize:
    """The last measurement of a pool. ``size`` is None if the cluster did not answer."""

    measuring: Lock = field(default_factory=Lock)
    size: PoolUsage | None = None
    expires_at: float = -math.inf


class PoolSizes:
    """The sizes of Ceph pools, measured once for all hosts. Threads may share the object."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[UUID, _KnownSize] = {}

    def of(self, pool: Pool) -> PoolUsage | None:
        """Return the size of a pool, or None if the cluster does not answer.

        While one thread measures the pool, other threads get the previous size. If there is none, they wait.
        """
        with self._lock:
            known = self._known.setdefault(pool.uuid, _KnownSize())
        if known.measuring.acquire(blocking=known.expires_at == -math.inf):
            try:
                if known.expires_at <= time.monotonic():
                    known.size = self._measure(pool)
                    # A measurement may take longer than its result is cached, so the cache time begins afterwards.
                    kept_s = FAILURES_KEPT_S if known.size is None else SIZES_KEPT_S
                    known.expires_at = time.monotonic() + kept_s
            finally:
                known.measuring.release()
        return known.size

    @staticmethod
    def _measure(pool: Pool) -> PoolUsage | None:
        try:
            return CephPool(pool, lambda: CONNECT_S).size()
        except (CephError, DriverError) as error:
            log.warning("ceph_not_measured", pool=pool.name, reason=str(error))
            return None


def _error_number(program: str, end: ProgramEnd) -> int | None:
    """Return the number of the system error that ended a program, or None if the program named none.

    The exit code of ``rbd`` is that number. ``ceph`` exits with 1 if no monitor answers, so its output counts.
    """
    if program == "rbd":
        return end.code
    found = NAMED_ERROR.search(end.complained)
    if found is None:
        return None
    number, name = found.groups()
    return int(number) if number else getattr(errno, name, None)


def _host_and_port(monitor: str) -> tuple[str, int]:
    """Return the host and port of a monitor. An IPv6 address keeps its brackets."""
    host, colon, port = monitor.rpartition(":")
    if colon and port.isdecimal() and (not host.startswith("[") or host.endswith("]")):
        return host, int(port)
    return monitor, DEFAULT_PORT
