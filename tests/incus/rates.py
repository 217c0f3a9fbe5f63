"""What a bulk call for containers costs: VMs a second, CPU of ours and of Incus's daemons for each VM.

Ours are all processes of the service, PostgreSQL and Valkey included; Incus's are its daemons and what they start.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psutil

from tests.support.runs.waiting import say


@contextmanager
def said_what_it_costs(what: str, count: int) -> Iterator[None]:
    """Say what was spent while it is entered, for each of ``count``."""
    began, ours, theirs = time.monotonic(), *cpu()
    yield
    took, now = time.monotonic() - began, cpu()
    each = [1000 * (after - before) / count for after, before in zip(now, (ours, theirs), strict=True)]
    say(
        f"{what} in {took:.1f} s, {count / took:.2f} a second; CPU for each: {each[0]:.0f} ms of ours,"
        f" {each[1]:.0f} ms of Incus's"
    )


def cpu() -> tuple[float, float]:
    """CPU seconds so far of the service's processes, which are this one's children, and of Incus's daemons."""
    ours = psutil.Process().children(recursive=True)
    daemons = [one for one in psutil.process_iter() if one.name() == "incusd"]
    theirs = [process for daemon in daemons for process in (daemon, *daemon.children(recursive=True))]
    return _spent(ours), _spent(theirs)


def _spent(processes: Iterable[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    spent: float = sum(one.user + one.system + one.children_user + one.children_system for one in times)
    return spent
