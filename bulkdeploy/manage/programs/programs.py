"""The service's programs as command lines: what ``up`` starts as children and a machine runs by hand."""

import sys
from pathlib import Path

from bulkdeploy.wiring.settings import Settings

API = ("-m", "bulkdeploy.manage.main", "api")
WORKER = ("-m", "workers.app")
SWEEPER = ("-m", "workers.sweeper")
"""Reached by name: nothing in this package imports the workers."""


def command_line(program: tuple[str, ...]) -> list[str]:
    """``program`` under this interpreter."""
    return [sys.executable, *program]


def environment(settings: Settings, inherited: dict[str, str]) -> dict[str, str]:
    """Return the environment of a program: ours, with the settings as they are now.

    Output is unbuffered, so that a line is seen when it is written.
    """
    absolute = settings.model_copy(update={"data_dir": Path(settings.data_dir).absolute()})
    kept = {name: value for name, value in inherited.items() if not name.startswith("BULKDEPLOY_")}
    return {**kept, **absolute.environment(), "PYTHONUNBUFFERED": "1"}
