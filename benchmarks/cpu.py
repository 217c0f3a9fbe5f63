"""CPU and memory of process trees, from the kernel's own counters."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil


def cpu_seconds(pid: int) -> float:
    """CPU of a process, of its living descendants, and of the descendants that it has buried."""
    total = 0.0
    for process in _tree(pid):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def own_cpu_seconds(pids: Iterable[int]) -> float:
    """CPU of exactly these processes of one thread each, to the microsecond; those that are gone count nothing."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return total


def resident_bytes(pid: int, *, peak: bool = False) -> int:
    """Memory of a process tree: now, or (``peak``) the most that each process ever had."""
    name = "VmHWM:" if peak else "VmRSS:"
    total = 0
    for process in _tree(pid):
        with suppress(OSError):
            for row in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if row.startswith(name):
                    total += int(row.split()[1]) * 1024
    return total


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


@dataclass
class CpuMeter:
    """What groups of processes use between ``start`` and ``stop``.

    Attributes:
        groups: names to the roots of process trees.
        sessions: names to who knows which processes of the group ``postgres`` are counted on their own; asked
            at the start and at the end, since sessions may be opened in between.
    """

    groups: Mapping[str, Iterable[int]]
    sessions: Mapping[str, Callable[[], Iterable[int]]] = field(default_factory=dict)
    _before: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        """Begin to count."""
        self._before = self._read()

    def stop(self) -> dict[str, float]:
        """CPU seconds by group since ``start``."""
        after = self._read()
        return {name: after[name] - self._before[name] for name in after}

    def _read(self) -> dict[str, float]:
        found = {name: sum(map(cpu_seconds, pids)) for name, pids in self.groups.items()}
        for name, sessions in self.sessions.items():
            found[name] = own_cpu_seconds(sessions())
            found["postgres"] -= found[name]
        return found
