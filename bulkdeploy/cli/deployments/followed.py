"""The stored job ids of batches, for APIs without deployments, so that batches can be followed again."""

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

from bulkdeploy.cli.connection.config_file import write_private

KEPT_FOR = 7 * 24 * 3600.0  # seconds
NAME = re.compile(r"[0-9A-Za-z-]{1,64}")


class FollowedBatches:
    """Files with job ids; a batch is found by the id of its first job."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "batches"

    def keep(self, job_ids: Sequence[str]) -> str:
        """Store a batch, and return the name under which it can be found. Batches older than a week are deleted."""
        self._forget_old()
        name = job_ids[0]
        if not NAME.fullmatch(name):
            return ""
        write_private(self.directory / f"{name}.json", json.dumps(list(job_ids)))
        return name

    def find(self, name: str) -> list[str]:
        """Return the job ids of a batch, or an empty list if the batch is unknown."""
        if not NAME.fullmatch(name):
            return []
        try:
            kept = json.loads((self.directory / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        return [str(job_id) for job_id in kept] if isinstance(kept, list) else []

    def _forget_old(self) -> None:
        if not self.directory.is_dir():
            return
        for path in self.directory.glob("*.json"):
            if time.time() - path.stat().st_mtime > KEPT_FOR:
                path.unlink(missing_ok=True)
