"""Where the services of a running ``up`` are: a file in data_dir that other commands read.

It holds the embedded courier's password, so only the owner may read it.
"""

import json
import os
from pathlib import Path

from bulkdeploy.wiring.settings import Settings

FILE_NAME = "running.json"


def announce(settings: Settings) -> None:
    """Write where the services are."""
    path = settings.data_dir / FILE_NAME
    found = {"database_url": settings.database_url, "redis_url": settings.redis_url, "listen": settings.listen}
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({**found, "pid": os.getpid()}, file)
    draft.rename(path)


def withdraw(data_dir: Path) -> None:
    """Forget it, at the end of ``up``."""
    (data_dir / FILE_NAME).unlink(missing_ok=True)


def with_running_services(settings: Settings) -> Settings:
    """``settings``, with the addresses of the ``up`` that runs in data_dir, unless they name another database."""
    path = settings.data_dir / FILE_NAME
    if not path.is_file():
        return settings
    found = json.loads(path.read_text())
    if settings.database_url not in (None, found["database_url"]):
        return settings
    return settings.model_copy(update={name: found[name] for name in ("database_url", "redis_url", "listen")})
