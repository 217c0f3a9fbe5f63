"""The product's programs as real processes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from bulkdeploy.embedded.processes import spawn
from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.manage.programs.programs import environment
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.forking import Forked, can_be_forked
from tests.support.runs.waiting import PATIENCE_S

BULKDEPLOY = ("-m", "bulkdeploy.manage.main")


def bulkdeploy(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command of the product to its end."""
    return run_to_its_end(settings, *BULKDEPLOY, *arguments)


def run_to_its_end(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself (``arguments`` for the interpreter)."""
    variables = environment(settings, dict(os.environ))
    if can_be_forked(arguments, variables):
        return _forked_to_its_end(arguments, variables)
    return subprocess.run(
        [sys.executable, *arguments],
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _forked_to_its_end(arguments: Sequence[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder) / "out", Path(folder) / "errors"
        status = Forked(arguments, variables, out, errors).wait(PATIENCE_S)
        return subprocess.CompletedProcess(list(arguments), status, out.read_text(), errors.read_text())


Process: TypeAlias = subprocess.Popen[bytes] | Forked


@contextmanager
def program(settings: Settings, log: Path, *arguments: str) -> Iterator[Process]:
    """Keep a program running (``arguments`` for the interpreter); afterwards end it politely, then kill."""
    variables = environment(settings, dict(os.environ))
    process: Process
    if can_be_forked(arguments, variables):
        process = Forked(arguments, variables, log)
    else:
        with log.open("ab") as output:
            process = spawn(
                [sys.executable, *arguments], death_signal=signal.SIGKILL, output=output, environment=variables
            )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def wait_for(url: str, process: Process, log: Path, statuses: Sequence[int] = (200,)) -> None:
    """Wait until ``url`` answers with one of ``statuses``; a dead program fails with its log."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"The program ended:\n{log.read_text()}")
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own http URL
                if answer.status in statuses:
                    return
        except urllib.error.HTTPError as error:
            with error:
                if error.code in statuses:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{url} did not answer in time:\n{log.read_text()}")


@contextmanager
def api_process(settings: Settings, log: Path) -> Iterator[str]:
    """``bulkdeploy api`` as operators run it; yields its URL."""
    listen = f"127.0.0.1:{free_port()}"
    settings = settings.model_copy(update={"listen": listen})
    with program(settings, log, *BULKDEPLOY, "api") as process:
        wait_for(f"{settings.api_monitoring_url}/health/ready", process, log)
        yield f"http://{listen}"
