"""Group commit: many threads add entries, and one thread writes all waiting entries at once.

While one batch is being written, the entries of the next batch are collected, so the size of batches follows the
load. A batch costs about the same with one entry or with thirty. Therefore, under light load, at least ``pace_s``
seconds pass between the beginnings of two batches. A single entry does not wait.
"""

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")

POLL_S = 0.005


class GroupCommit(Generic[T]):
    """A queue whose only reader thread passes all waiting entries to ``write``, in order and in batches.

    Args:
        write: writes one batch. It must not raise, and must itself handle entries that it cannot write.
        largest: the maximum number of entries of a batch.
        pace_s: the minimum time in seconds between the beginnings of two batches, unless ``enough`` entries wait.
        enough: the number of waiting entries at which a batch begins immediately.
        name: the thread's name.
    """

    def __init__(
        self,
        write: Callable[[Sequence[T]], None],
        *,
        largest: int = 500,
        pace_s: float = 0.0,
        enough: int = 64,
        name: str,
    ) -> None:
        self._write, self._largest, self._pace_s, self._enough = write, largest, pace_s, enough
        self._entries: SimpleQueue[T | None] = SimpleQueue()
        self._closing = False
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, entry: T) -> None:
        """Add an entry to the queue. Returns immediately."""
        self._entries.put(entry)

    def is_alive(self) -> bool:
        """Return whether the writing thread is running."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Write all waiting entries immediately, and end the thread. No entry may be added afterwards."""
        self._closing = True
        self._entries.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        due = time.monotonic()
        while not ended:
            batch, ended = self._next_batch(due)
            due = time.monotonic() + self._pace_s
            if batch:
                self._write(batch)

    def _next_batch(self, due: float) -> tuple[list[T], bool]:
        """Wait for a batch, and return it together with whether it is the last batch.

        A batch begins at the time ``due``, or earlier if enough entries wait.
        """
        batch: list[T] = []
        entry = self._entries.get()
        while not self._closing and 1 + self._entries.qsize() < self._enough and time.monotonic() < due:
            time.sleep(POLL_S)
        while entry is not None:
            batch.append(entry)
            if len(batch) == self._largest:
                return batch, False
            try:
                entry = self._entries.get_nowait()
            except Empty:
                return batch, False
        return batch, True
