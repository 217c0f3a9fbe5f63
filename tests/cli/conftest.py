"""Fixtures: the recorded server, and bulkmonkey with a home of its own.

A plain call runs the program in this process, which is twenty times cheaper than a new one; what is promised
about processes, signals and terminals is shown with ``start`` and ``terminal``, which begin real ones.
"""

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from bulkdeploy.cli.connection.clock import Clock
from bulkdeploy.cli.program import run_program
from bulkdeploy.manage.programs.programs import WORKER
from tests.cli.recorded_server import API_KEY, SECRET_KEY, RecordedServer, serving
from tests.cli.terminal import Terminal
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import program
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

BULKMONKEY = (sys.executable, "-m", "bulkdeploy.cli.main")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the program left."""

    status: int
    out: str
    err: str


class LeapingClock:
    """The machine's time, but for sleeping: that takes no time, and the clock is ahead by it afterwards."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        """Leap ahead."""
        self.ahead += max(seconds, 0.0)


@dataclass(slots=True)
class Monkey:
    """Runs bulkmonkey with this environment; None: with the machine's clock."""

    environment: dict[str, str]
    clock: Clock | None = None

    def __call__(self, *words: str, text: str = "", **variables: str) -> Outcome:
        """Run to the end in this process, without a terminal; ``text`` is standard input."""
        out, err = io.StringIO(), io.StringIO()
        environment = {**self.environment, **variables}
        with _surroundings(environment, text), redirect_stdout(out), redirect_stderr(err):
            status = run_program(environment, words, self.clock)
        return Outcome(status, out.getvalue(), err.getvalue())

    def start(self, *words: str, **variables: str) -> "subprocess.Popen[str]":
        """Begin a run, without a terminal."""
        pipe = subprocess.PIPE
        environment = {**self.environment, **variables}
        return subprocess.Popen(
            [*BULKMONKEY, *words], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment, text=True
        )

    @contextmanager
    def terminal(self, *words: str, columns: int = 120, lines: int = 40, **variables: str) -> Iterator[Terminal]:
        """Begin a run on a pseudo-terminal."""
        environment = {**self.environment, **variables}
        terminal = Terminal([*BULKMONKEY, *words], environment, columns=columns, lines=lines)
        try:
            yield terminal
        finally:
            terminal.close()


@contextmanager
def _surroundings(environment: Mapping[str, str], text: str) -> Iterator[None]:
    """The variables and the standard input that a process would have, until the block ends."""
    variables, stdin = dict(os.environ), sys.stdin
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = io.StringIO(text)
    try:
        yield
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(variables)


class MonkeyProcess(Monkey):
    """The same with a process for each call, for where this one serves the API and writes to its own output."""

    def __call__(self, *words: str, text: str = "", **variables: str) -> Outcome:
        """Run to the end, without a terminal; ``text`` is standard input."""
        environment = {**self.environment, **variables}
        done = subprocess.run(
            [*BULKMONKEY, *words], input=text, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def clock() -> LeapingClock:
    """The clock of both bulkmonkey and the recorded server, so that waiting for jobs takes no time."""
    return LeapingClock()


@pytest.fixture
def recorded(clock: LeapingClock) -> Iterator[RecordedServer]:
    """The recorded server as upstream's would be: it knows no deployments."""
    with serving(RecordedServer(clock=clock.now)) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with nothing in it."""
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """An environment in which nothing of this machine's user is seen."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PAGER": "cat",
    }


@pytest.fixture
def bare_monkey(environment: dict[str, str], clock: LeapingClock) -> Monkey:
    """Bulkmonkey without any configuration."""
    return Monkey(environment, clock)


@pytest.fixture
def monkey_at(environment: dict[str, str], home: Path, clock: LeapingClock) -> Callable[..., Monkey]:
    """Bulkmonkey with a profile for a URL, with the recorded server's keys unless told others."""

    def at(url: str, apikey: str = API_KEY, secretkey: str = SECRET_KEY) -> Monkey:
        path = home / ".config" / "bulkmonkey" / "config"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"profile = lab\n\n[lab]\nurl = {url}\napikey = {apikey}\nsecretkey = {secretkey}\n", encoding="utf-8"
        )
        path.chmod(0o600)
        return Monkey(environment, clock)

    return at


@pytest.fixture
def monkey(monkey_at: Callable[..., Monkey], recorded: RecordedServer) -> Monkey:
    """Bulkmonkey with a profile for the recorded server."""
    return monkey_at(recorded.url)


@pytest.fixture
def admin_monkey(fleet: Fleet, api_url: str, client: ApiClient, monkey_at: Callable[..., Monkey]) -> Monkey:
    """Bulkmonkey as the admin of the real service on the small zone."""
    del fleet  # it is the zone
    return MonkeyProcess(monkey_at(api_url, client.api_key, client.secret_key).environment)


@pytest.fixture
def worker(fleet: Fleet, tmp_path: Path) -> Iterator[None]:
    """A worker at work for the real service."""
    settings = fleet.settings.model_copy(update={"worker_threads": 8})
    with program(settings, tmp_path / "worker.log", *WORKER):
        yield
