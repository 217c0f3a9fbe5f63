"""Allocator programs for tests: their directory, Ganeti's own and ours."""

import sys
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import Engine

from bulkdeploy.scheduling.allocators import use_allocators_of
from tests.support.api.api_client import ApiClient

HAIL = Path("/usr/lib/ganeti/iallocators/hail")
if not HAIL.exists():
    HAIL = Path("/usr/bin/hail")
OURS = Path(sys.executable).parent / "bulkdeploy-iallocator"

needs_hail = pytest.mark.skipif(not HAIL.exists(), reason="hail is not here (Debian's package ganeti-htools)")


class Allocators:
    """A directory of programs, and the setting that names them."""

    def __init__(self, directory: Path, client: ApiClient) -> None:
        self.directory, self._client = directory, client

    @classmethod
    def of(cls, engine: Engine, directory: Path, client: ApiClient) -> Self:
        """A directory for who works with this engine."""
        directory.mkdir()
        use_allocators_of(engine, directory)
        return cls(directory, client)

    def add(self, name: str, code: str) -> None:
        """A program written in Python."""
        path = self.directory / name
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)

    def link(self, name: str, target: Path) -> None:
        """A program that is there."""
        (self.directory / name).symlink_to(target)

    def use(self, names: str, task: str = "allocate") -> None:
        """Have these asked from now on."""
        self._client.call("updateConfiguration", name=f"placement.allocators.{task}", value=names)
