"""The addresses of the services of a running ``up``, in files in data_dir for other commands and clients.

They hold passwords and keys, so only their owner may read them.
"""

import json
import os
from pathlib import Path

from bulkdeploy.wiring.settings import Settings

FILE_NAME = "running.json"
CLIENT_FILE_NAME = "bulkmonkey.config"

ADDRESSES = ("database_url", "redis_url", "listen")
ANNOUNCED = (*ADDRESSES, "drivers")


def announce(settings: Settings) -> None:
    """Write the addresses of the running services to a file in data_dir."""
    found = {name: getattr(settings, name) for name in ANNOUNCED}
    _replace(settings.data_dir / FILE_NAME, json.dumps({**found, "pid": os.getpid()}))


def hand_out_keys(data_dir: Path, profile: str) -> Path:
    """Write a configuration file for clients on this machine, and return its path."""
    path = data_dir / CLIENT_FILE_NAME
    _replace(path, profile)
    return path


def withdraw(data_dir: Path) -> None:
    """Delete the files with the addresses and keys of the services when ``up`` ends."""
    for name in (FILE_NAME, CLIENT_FILE_NAME):
        (data_dir / name).unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.rename(path)


def with_running_services(settings: Settings) -> Settings:
    """Return ``settings`` with the addresses of an ``up`` that runs in data_dir.

    The settings are returned unchanged if they name another database, or if data_dir cannot be read because it
    belongs to another user.
    """
    try:
        found = json.loads((settings.data_dir / FILE_NAME).read_text())
    except (FileNotFoundError, PermissionError):
        return settings
    if settings.database_url not in (None, found["database_url"]):
        return settings
    found_here = {name: found[name] for name in ADDRESSES}
    return settings.model_copy(update={**found_here, "drivers": settings.drivers or found["drivers"]})
