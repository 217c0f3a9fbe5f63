"""Libvirt daemons with their guests as servers whose power fails, and a watcher for guests that run twice."""

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from tests.support.hypervisors.libvirt_hosts import LibvirtHost


def switch(host: LibvirtHost, on: bool) -> None:
    """Cut a server's power, which ends its daemon and its guests, or switch the server on."""
    if on:
        host.start()
        host.wait()
        return
    with suppress(AssertionError, ProcessLookupError):
        host.signal(signal.SIGKILL)
    for pid in host.guest_pids().values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class DoubleRuns:
    """Samples the processes of all guests every 50 ms, and keeps guests that were started while they ran elsewhere.

    A process that takes over from another one by a live migration is no second start.

    Attributes:
        found: guests that were started while they ran, with the time and the processes.
        takeovers: times at which a process was first seen beside the process from which it takes over, by guest and
            start of the process.
    """

    def __init__(self, hosts: Sequence[LibvirtHost]) -> None:
        self._hosts, self._over = hosts, threading.Event()
        self.found: dict[UUID, str] = {}
        self.takeovers: dict[tuple[UUID, int], datetime] = {}
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "DoubleRuns":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(0.05):
            processes: defaultdict[UUID, list[tuple[GuestProcess, str]]] = defaultdict(list)
            for host in self._hosts:
                for guest, pid in host.guest_pids().items():
                    if (process := read_process(pid)) is not None:
                        processes[guest].append((process, host.name))
            for guest, found in processes.items():
                if len(found) > 1:
                    newest, now = max(found)[0], datetime.now(UTC)
                    if newest.takes_over_from_another:
                        self.takeovers.setdefault((guest, newest.start), now)
                    else:
                        self.found.setdefault(guest, f"at {now:%H:%M:%S.%f}: {sorted(found)}")


@dataclass(frozen=True, order=True)
class GuestProcess:
    """A process of a guest. Processes are ordered by their start, which is in clock ticks since the machine's."""

    start: int
    takes_over_from_another: bool


def read_process(pid: int) -> GuestProcess | None:
    """Return a guest's process, or None if it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if fields[0] not in "ZX":
            return GuestProcess(int(fields[19]), b"-incoming" in arguments)
    return None
