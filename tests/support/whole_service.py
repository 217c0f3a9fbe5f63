"""Everything as ``bulkdeploy up`` runs it, with the sample zone, in a directory of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import BULKDEPLOY, PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class WholeService:
    """A running service.

    Attributes:
        url: where its API and console are.
    """

    data_dir: Path
    url: str

    @property
    def password(self) -> str:
        """The password of the user admin."""
        return (self.data_dir / "admin.password").read_text().strip()

    def run(self, *arguments: str) -> str:
        """What a command of the product prints, run beside the service."""
        command = [sys.executable, *BULKDEPLOY, "--data-dir", str(self.data_dir), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS).stdout


@contextmanager
def whole_service(data_dir: Path) -> Iterator[WholeService]:
    """Start it, and stop it afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BULKDEPLOY_")}
    log = data_dir.parent / f"{data_dir.name}.log"
    command = [*BULKDEPLOY, "--data-dir", str(data_dir), "up", "--listen", "127.0.0.1:0", "--demo-zone"]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *command], stdout=output, stderr=output, env=kept)
    running = data_dir / "running.json"
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not running.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"The service did not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield WholeService(data_dir, f"http://{json.loads(running.read_text())['listen']}")
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
