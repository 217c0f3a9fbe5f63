"""The options before the subcommand's name."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Invocation:
    """Options of the product's command itself."""

    config_file: Path | None = None
    data_dir: Path | None = None
