"""The lock of a data directory, so that only one process uses the directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DataDirectoryInUse(Exception):
    """Another process uses this data directory.

    Attributes:
        data_dir: the directory.
        holder: the id of that process as text; empty if unknown.
    """

    def __init__(self, data_dir: Path, holder: str) -> None:
        self.data_dir, self.holder = data_dir, holder
        super().__init__(f"{data_dir} is in use by another `bulkdeploy up` (process {holder or 'unknown'})")


@contextmanager
def exclusive(data_dir: Path) -> Iterator[None]:
    """Create the data directory if it is missing, and lock it for this process during the block.

    The kernel releases the lock when the process ends, even if it is killed.

    Raises:
        DataDirectoryInUse: another process has the lock.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise DataDirectoryInUse(data_dir, lock.read().strip()) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
