"""The options of ``bulkdeploy`` before the name of the subcommand."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options of the ``bulkdeploy`` command itself, before the subcommand."""

    config_file: Path | None = None
    data_dir: Path | None = None
