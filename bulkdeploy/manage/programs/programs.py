"""The command lines of the service's programs, which ``up`` starts or an operator runs."""

import sys
from pathlib import Path

from bulkdeploy.wiring.settings import Settings

API = ("-m", "bulkdeploy.manage.main", "api")
WORKER = ("-m", "workers.app")
SWEEPER = ("-m", "workers.sweeper")
"""Reached by name: nothing in this package imports the workers."""


def command_line(program: tuple[str, ...]) -> list[str]:
    """Return the command line that runs ``program`` with this Python interpreter."""
    return [sys.executable, *program]


def environment(settings: Settings, inherited: dict[str, str]) -> dict[str, str]:
    """Return the environment variables of a program: the inherited ones and the present settings.

    Output is unbuffered, so that each line is visible immediately.
    """
    absolute = settings.model_copy(update={"data_dir": Path(settings.data_dir).absolute()})
    kept = {name: value for name, value in inherited.items() if not name.startswith("BULKDEPLOY_")}
    return {**kept, **absolute.environment(), "PYTHONUNBUFFERED": "1"}
