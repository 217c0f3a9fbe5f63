"""Fixtures: the recorded server, and bulkmonkey as a real process with a home of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.recorded_server import API_KEY, SECRET_KEY, RecordedServer, serving
from tests.cli.terminal import Terminal
from tests.support.api_client import ApiClient
from tests.support.fleet import Fleet, fleet, fleet_simulator_url
from tests.support.programs import BULKDEPLOY, program

__all__ = ["fleet", "fleet_simulator_url"]

BULKMONKEY = (sys.executable, "-m", "bulkdeploy.cli.main")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the program left."""

    status: int
    out: str
    err: str


@dataclass(slots=True)
class Monkey:
    """Runs bulkmonkey with this environment."""

    environment: dict[str, str]

    def __call__(self, *words: str, text: str | None = None, **variables: str) -> Outcome:
        """Run to the end, without a terminal; ``text`` is standard input."""
        done = subprocess.run(
            [*BULKMONKEY, *words],
            input=text if text is not None else "",
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

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


@pytest.fixture
def recorded() -> Iterator[RecordedServer]:
    """The recorded server as upstream's would be: it knows no deployments."""
    with serving(RecordedServer()) as server:
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
def bare_monkey(environment: dict[str, str]) -> Monkey:
    """Bulkmonkey without any configuration."""
    return Monkey(environment)


@pytest.fixture
def monkey_at(environment: dict[str, str], home: Path) -> Callable[..., Monkey]:
    """Bulkmonkey with a profile for a URL, with the recorded server's keys unless told others."""

    def at(url: str, apikey: str = API_KEY, secretkey: str = SECRET_KEY) -> Monkey:
        path = home / ".config" / "bulkmonkey" / "config"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"profile = lab\n\n[lab]\nurl = {url}\napikey = {apikey}\nsecretkey = {secretkey}\n", encoding="utf-8"
        )
        path.chmod(0o600)
        return Monkey(environment)

    return at


@pytest.fixture
def monkey(monkey_at: Callable[..., Monkey], recorded: RecordedServer) -> Monkey:
    """Bulkmonkey with a profile for the recorded server."""
    return monkey_at(recorded.url)


@pytest.fixture
def admin_monkey(
    fleet: Fleet, api_url: str, client: ApiClient, monkey_at: Callable[..., Monkey], tmp_path: Path
) -> Iterator[Monkey]:
    """Bulkmonkey as the admin of the real service on the small zone, with a worker at work."""
    settings = fleet.settings.model_copy(update={"worker_threads": 8})
    with program(settings, tmp_path / "worker.log", *BULKDEPLOY, "worker"):
        yield monkey_at(api_url, client.api_key, client.secret_key)
