"""Promises of the supervisor, with small real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bulkdeploy.embedded.data_lock import DataDirectoryInUse, exclusive
from bulkdeploy.embedded.processes import spawn
from bulkdeploy.embedded.supervisor import ChildSpec, Supervisor
from tests.support.runs.waiting import PATIENCE_S


def child(name: str, code: str, **options: object) -> ChildSpec:
    """A Python child that runs ``code``."""

    def launch() -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-u", "-c", code]
        return spawn(arguments, death_signal=signal.SIGKILL, output=subprocess.PIPE)

    return ChildSpec(name, launch, **options)  # type: ignore[arg-type]


def within(condition: Callable[[], bool]) -> Callable[[], bool]:
    """``condition``, or a failure when it does not come true in time."""
    deadline = time.monotonic() + PATIENCE_S

    def check() -> bool:
        assert time.monotonic() < deadline
        return condition()

    return check


def test_output_arrives_line_by_line_with_its_name() -> None:
    """Every line a child writes is passed on once, also one without an end."""
    seen: list[tuple[str, str]] = []
    supervisor = Supervisor(lambda name, line: seen.append((name, line)))
    supervisor.start(child("talker", "print('one'); print('two'); print('half', end='')"))
    supervisor.run(until=within(lambda: ("talker", "half") in seen))
    supervisor.stop()
    assert seen[:3] == [("talker", "one"), ("talker", "two"), ("talker", "half")]


def test_dead_child_is_started_again() -> None:
    """A child that dies comes back, and the log says how it ended."""
    seen: list[str] = []
    supervisor = Supervisor(lambda _, line: seen.append(line))
    first = supervisor.start(child("sleeper", "import time; print('up'); time.sleep(600)"))
    supervisor.run(until=within(lambda: "up" in seen))
    first.kill()
    supervisor.run(until=within(lambda: seen.count("up") == 2))
    assert any("SIGKILL" in line for line in seen)
    supervisor.stop()


def test_child_that_cannot_live_is_retried_ever_more_slowly() -> None:
    """Pauses between attempts grow, so that a broken child does not burn the machine."""
    seen: list[str] = []
    supervisor = Supervisor(lambda _, line: seen.append(line))
    supervisor.start(child("broken", "raise SystemExit(3)"))
    supervisor.run(until=within(lambda: len(seen) >= 3))
    supervisor.stop()
    assert [line.rsplit(" in ", 1)[1] for line in seen[:3]] == ["0.2 s", "0.4 s", "0.8 s"]
    assert all("exit code 3" in line for line in seen[:3])


def test_higher_stages_end_before_lower_ones_begin_to() -> None:
    """The programs are gone before their servers are asked to stop."""
    seen: list[str] = []
    code = (
        "import signal, sys, time\n"
        "def leave(*_): print(sys.argv[0], 'leaves'); sys.exit()\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "print('ready')\n"
        "time.sleep(600)\n"
    )
    supervisor = Supervisor(lambda name, line: seen.append(f"{name} {line.split()[-1]}"))
    supervisor.start(child("server", code, stage=0))
    supervisor.start(child("program", code, stage=1))
    supervisor.run(until=within(lambda: len(seen) == 2))
    supervisor.stop()
    assert seen[2:] == ["program leaves", "server leaves"]


def test_child_that_ignores_the_stop_is_killed() -> None:
    """A deaf child does not keep the supervisor from ending."""
    seen: list[str] = []
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    supervisor = Supervisor(lambda _, line: seen.append(line))
    process = supervisor.start(child("deaf", code, patience_seconds=0.2))
    supervisor.run(until=within(lambda: bool(seen)))
    supervisor.stop()
    assert process.returncode == -signal.SIGKILL


def test_second_stop_request_does_not_wait() -> None:
    """Ctrl-C twice kills at once."""
    seen: list[str] = []
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    supervisor = Supervisor(lambda _, line: seen.append(line))
    process = supervisor.start(child("deaf", code, patience_seconds=10_000))
    supervisor.run(until=within(lambda: bool(seen)))
    supervisor.request_stop()
    supervisor.request_stop()
    supervisor.stop()
    assert process.returncode == -signal.SIGKILL


def test_children_do_not_outlive_a_killed_parent() -> None:
    """A parent that is killed with signal 9 takes its children along."""
    code = (
        "import signal, sys, time\n"
        "from bulkdeploy.embedded.processes import spawn\n"
        "child = spawn([sys.executable, '-c', 'import time; time.sleep(600)'], death_signal=signal.SIGKILL)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        orphan = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    assert psutil.wait_procs([orphan], timeout=PATIENCE_S)[1] == []


def test_data_directory_has_one_holder(tmp_path: Path) -> None:
    """A second starter is refused and told who holds it; afterwards it may."""
    with exclusive(tmp_path), pytest.raises(DataDirectoryInUse, match=str(os.getpid())), exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass
