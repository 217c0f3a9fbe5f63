"""Requests of many threads that are served together by the thread of one caller.

A caller that comes while nobody is served serves its own request at once. Callers that come meanwhile wait; when
the first batch is served, the first of them serves all of them. Batches are therefore as large as the load asks
for, and a request that comes alone waits for nothing. A database calls this group commit.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from enum import Enum, auto
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Unserved(Exception):
    """Raised to a caller if the thread that took its request ended without a result or takes too long.

    The request may have been served nevertheless.
    """


class _State(Enum):
    """The state of a request: it waits, its own thread must serve it with others, or another thread serves it."""

    WAITS = auto()
    LEADS = auto()
    TAKEN = auto()


class _Entry(Generic[T, R]):
    """A request. Whoever changes its state releases ``turn`` once: when it is to lead, or when it was served."""

    __slots__ = ("requested", "results", "state", "turn")

    def __init__(self, requested: T) -> None:
        self.requested = requested
        self.state = _State.WAITS
        self.results: list[R] = []  # one, once it is served
        self.turn = Lock()  # not an Event: that is made in Python, and two of them are a tenth of a poll
        self.turn.acquire()


class JoinedRequests(Generic[T, R]):
    """Serves requests of any number of threads, those that wait together.

    Args:
        serve: takes requests, at least one, in the order in which they came, and returns a result for each. It runs
            in the thread of one of the callers. What it raises reaches that caller; the others get ``Unserved``.
        largest: the largest number of requests that are served together.
        key: requests with equal keys are not served together. None: all requests may be.
        gather: called by a caller that comes while nobody is served, before it takes the requests that came
            meanwhile. None: it serves its own request at once.
        patience_s: how many seconds a batch keeps the next one waiting; then the next one is served beside it.
            None: for ever, so that one batch is served at a time.
        longest_s: how many seconds more a caller waits whose request another thread has taken. None: for ever.
    """

    def __init__(
        self,
        serve: Callable[[Sequence[T]], Sequence[R]],
        *,
        largest: int,
        key: Callable[[T], Hashable] | None = None,
        gather: Callable[[], object] | None = None,
        patience_s: float | None = None,
        longest_s: float | None = None,
    ) -> None:
        self._serve, self._largest, self._key, self._gather = serve, largest, key, gather
        self._patience_s = -1 if patience_s is None else patience_s
        self._longest_s = -1 if longest_s is None else longest_s
        self._lock = Lock()
        self._waiting: deque[_Entry[T, R]] = deque()
        self._serving = 0

    @property
    def waiting(self) -> int:
        """The number of requests that no thread serves yet."""
        return len(self._waiting)

    def run(self, requested: T) -> R:
        """Return the result of the request, which was served after this call began.

        Raises:
            Unserved: another thread took it, and gave no result.
        """
        entry: _Entry[T, R] = _Entry(requested)
        with self._lock:
            leads = not self._serving
            if leads:
                self._serving = 1
            else:
                self._waiting.append(entry)
        if leads and self._gather is not None:
            self._gather()
        if leads or self._is_to_lead(entry):
            self._lead(entry)
        if not entry.results:
            raise Unserved
        return entry.results[0]

    def _is_to_lead(self, entry: _Entry[T, R]) -> bool:
        """Wait until the request was served (False) or its own thread is to serve it (True)."""
        if not entry.turn.acquire(timeout=self._patience_s):
            with self._lock:
                if entry.state is _State.WAITS:
                    self._waiting.remove(entry)
                    self._serving += 1
                    return True
            entry.turn.acquire(timeout=self._longest_s)
        return entry.state is _State.LEADS

    def _lead(self, entry: _Entry[T, R]) -> None:
        """Serve this request and all waiting requests, then let the first request that arrived meanwhile lead."""
        batch = self._take(entry)
        results: Sequence[R] = ()
        try:
            results = self._serve([each.requested for each in batch])
            if len(results) != len(batch):
                raise TypeError(f"{len(results)} results of {len(batch)} requests")
        finally:
            for each, result in zip(batch, results, strict=False):
                each.results.append(result)
            for each in batch:
                if each is not entry:
                    each.turn.release()
            with self._lock:
                self._serving -= 1
                if self._waiting and not self._serving:
                    self._serving = 1
                    following = self._waiting.popleft()
                    following.state = _State.LEADS
                    following.turn.release()

    def _take(self, first: _Entry[T, R]) -> list[_Entry[T, R]]:
        """Return the requests to serve together with the first.

        Requests with an equal key wait for a later batch.
        """
        batch, stay = [first], list[_Entry[T, R]]()
        key = self._key
        with self._lock:
            keys = set() if key is None else {key(first.requested)}
            while self._waiting and len(batch) < self._largest:
                entry = self._waiting.popleft()
                if key is not None:
                    if (own := key(entry.requested)) in keys:
                        stay.append(entry)
                        continue
                    keys.add(own)
                entry.state = _State.TAKEN
                batch.append(entry)
            self._waiting.extendleft(reversed(stay))
        return batch
