"""The lock of a data directory, which lets only one process use it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DataDirectoryInUse(Exception):
    """Another process uses this data directory."""

    def __init__(self, data_dir: Path, holder: str) -> None:
        self.data_dir, self.holder = data_dir, holder
        super().__init__(f"{data_dir} is in use by another `bulkdeploy up` (process {holder or 'unknown'})")


@contextmanager
def exclusive(data_dir: Path) -> Iterator[None]:
    """Lock the data directory for this process, and create a missing directory.

    The kernel releases the lock when the process ends, however it ends.

    Raises:
        DataDirectoryInUse: another process holds it.
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
