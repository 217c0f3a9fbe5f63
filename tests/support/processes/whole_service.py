"""Everything as ``bulkdeploy up`` runs it, with the sample zone or other settings, in a directory of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.programs import BULKDEPLOY, wait_for
from tests.support.runs.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class WholeService:
    """A running service.

    Attributes:
        url: where its API and console are.
        config: its settings; None: the built-in ones.
    """

    data_dir: Path
    url: str
    config: Path | None = None

    @property
    def password(self) -> str:
        """The password of the user admin."""
        return (self.data_dir / "admin.password").read_text().strip()

    def run(self, *arguments: str) -> str:
        """What a command of the product prints, run beside the service."""
        return self.ended(*arguments, check=True).stdout

    def ended(self, *arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """How a command of the product ended, run beside the service."""
        command = [sys.executable, *_program(self.data_dir, self.config), *arguments]
        return subprocess.run(command, check=check, capture_output=True, text=True, timeout=PATIENCE_S)


@contextmanager
def whole_service(
    data_dir: Path, config: Path | None = None, *, listen: str = "127.0.0.1:0"
) -> Iterator[WholeService]:
    """Start it, and stop it afterwards; with a file of settings there is no sample zone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BULKDEPLOY_")}
    log = data_dir.parent / f"{data_dir.name}.log"
    command = [*_program(data_dir, config), "up", "--listen", listen]
    if config is None:
        command.append("--demo-zone")
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *command], stdout=output, stderr=output, env=kept)
    running = data_dir / "running.json"
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not running.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"The service did not start:\n{log.read_text()}")
            time.sleep(0.1)
        service = WholeService(data_dir, f"http://{json.loads(running.read_text())['listen']}", config)
        wait_for(f"{service.url}/health/ready", process, log)
        yield service
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _program(data_dir: Path, config: Path | None) -> list[str]:
    return [*BULKDEPLOY, *(() if config is None else ("--config", str(config))), "--data-dir", str(data_dir)]
