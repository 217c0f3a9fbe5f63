"""A program that operators name ends with the process that ran it, and what it leaves behind on purpose stays."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from bulkdeploy.processes.run_program import run_program
from tests.support.runs.waiting import PATIENCE_S

LEAVES_A_CHILD = "sleep 1000 > /dev/null 2>&1 & echo $$ $! > {pids}.new && mv {pids}.new {pids}"


def wait_until(holds: Callable[[], bool]) -> bool:
    """Whether it holds in the end."""
    until = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def runs(pid: int) -> bool:
    """Whether a process does anything yet."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def is_tied(pid: int) -> bool:
    """Return whether a process has a file whose end kills the program, which it gets after the program began."""
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):
            flags = next(line for line in path.read_text().splitlines() if line.startswith("flags:"))
            if int(flags.split()[1], 8) & os.O_ASYNC:
                return True
    return False


def test_it_ends_with_the_process_that_ran_it(tmp_path: Path) -> None:
    """Killed, that can end nothing itself; what the program had started ends, too."""
    pids = tmp_path / "pids"
    command = ["/bin/sh", "-c", f"{LEAVES_A_CHILD.format(pids=pids)}; wait"]
    loaded = "from bulkdeploy.processes.run_program import run_program"
    run = f"{loaded}; run_program({command!r}, timeout_s={PATIENCE_S})"
    with subprocess.Popen([sys.executable, "-c", run]) as worker:
        assert wait_until(pids.exists)
        started = [int(pid) for pid in pids.read_text().split()]
        assert [runs(pid) for pid in started] == [True, True]
        assert wait_until(lambda: is_tied(worker.pid))
        worker.kill()
    assert wait_until(lambda: not any(runs(pid) for pid in started))


def test_what_it_leaves_running_is_left(tmp_path: Path) -> None:
    """A guest, say, that it started in the background: the end of the program is no death."""
    pids = tmp_path / "pids"
    ended = run_program(["/bin/sh", "-c", LEAVES_A_CHILD.format(pids=pids)], timeout_s=PATIENCE_S)
    _, left = (int(pid) for pid in pids.read_text().split())
    assert (ended.code, runs(left)) == (0, True)
    os.kill(left, signal.SIGKILL)


def test_it_reads_nothing() -> None:
    """What it is given to read has ended, so that it does not wait for it."""
    assert run_program(["/bin/cat"], timeout_s=PATIENCE_S).printed == ""
