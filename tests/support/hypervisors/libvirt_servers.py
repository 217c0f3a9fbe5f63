"""Libvirt daemons with their guests as servers whose power fails, and a watcher for guests that run twice."""

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
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
    """Samples the processes of all guests every 50 ms, and keeps guests that run twice at once."""

    def __init__(self, hosts: Sequence[LibvirtHost]) -> None:
        self._hosts, self._over = hosts, threading.Event()
        self.found: set[UUID] = set()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "DoubleRuns":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(0.05):
            guests: set[UUID] = set()
            for host in self._hosts:
                alive = {guest for guest, pid in host.guest_pids().items() if is_alive(pid)}
                self.found |= guests & alive
                guests |= alive


def is_alive(pid: int) -> bool:
    """Whether a process runs and is no zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
