"""Group commit: many threads hand in, one thread writes what is waiting, all of it at once.

While one batch is being written the next one gathers, so batches are as large as the load asks for and a
lone entry waits for nobody.
"""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class GroupCommit(Generic[T]):
    """Hands everything that was put in to ``write``, in order, from one thread.

    Args:
        write: writes one batch and does not raise: what it cannot write it must see to itself.
        largest: most entries of one batch.
        name: the thread's name.
    """

    def __init__(self, write: Callable[[Sequence[T]], None], *, largest: int = 500, name: str) -> None:
        self._write, self._largest = write, largest
        self._entries: SimpleQueue[T | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, entry: T) -> None:
        """Hand in an entry; returns at once, never blocks."""
        self._entries.put(entry)

    def close(self) -> None:
        """Write what was put in before, then end. Nothing may be put in afterwards."""
        self._entries.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._next_batch()
            if batch:
                self._write(batch)

    def _next_batch(self) -> tuple[list[T], bool]:
        """What is waiting, at least one entry; True: the last batch."""
        batch: list[T] = []
        entry = self._entries.get()
        while entry is not None:
            batch.append(entry)
            if len(batch) == self._largest:
                return batch, False
            try:
                entry = self._entries.get_nowait()
            except Empty:
                return batch, False
        return batch, True
