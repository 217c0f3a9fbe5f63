"""The directory in which the processes of one API server count together."""

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulkdeploy.manage.programs.api import FIGURES, LOCK, SHARED_FIGURES, figures_shared

DEAD = 2**22 + 1
"""More than any process id."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where directories for temporary files are."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(SHARED_FIGURES, "to be put back")
    monkeypatch.delenv(SHARED_FIGURES)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def test_a_server_that_is_not_seen_keeps_its_directory(place: Path) -> None:
    """In a container of its own its process id means nothing here; its lock does, until it ends."""
    other = place / f"{FIGURES}{DEAD}-abc"
    other.mkdir()
    with (other / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with figures_shared():
            assert (Path(os.environ.pop(SHARED_FIGURES)).parent, other.is_dir()) == (place, True)
    with figures_shared():
        assert not other.exists()
    assert list(place.iterdir()) == []
