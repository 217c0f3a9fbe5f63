"""Requests of many threads that one of the threads serves together, like the group commit of databases.

A caller that comes while no request is being served serves its own request at once. Callers that come meanwhile
wait. When the first request is served, one of the waiting callers serves all waiting requests. So a single request
never waits, and under load batches become large.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from enum import Enum, auto
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Unserved(Exception):
    """Another thread took the caller's request, but failed or took too long.

    The request may have been served nevertheless.
    """


class _State(Enum):
    """The state of a request: it waits, its own thread must serve it with others, or another thread serves it."""

    WAITS = auto()
    LEADS = auto()
    TAKEN = auto()


class _Entry(Generic[T, R]):
    """A request with its state and its result.

    The lock ``turn`` is released once: when the request's own thread must serve it, or when it is served.
    """

    __slots__ = ("requested", "results", "state", "turn")

    def __init__(self, requested: T) -> None:
        self.requested = requested
        self.state = _State.WAITS
        self.results: list[R] = []  # contains one result after the request was served
        self.turn = Lock()  # a Lock, because an Event takes much more time to create
        self.turn.acquire()


class JoinedRequests(Generic[T, R]):
    """Serves requests of any number of threads; requests that wait at the same time are served together.

    Args:
        serve: takes one or more requests in the order in which they came, and returns a result for each. It runs in
            the thread of one of the callers. That caller gets its exceptions; the other callers get ``Unserved``.
        largest: the most requests that are served together.
        key: requests with equal keys are not served together; None if any requests may be.
        gather: is called by a caller that comes while no request is being served, so that more requests can arrive
            before it serves them; None if it serves its own request at once.
        patience_s: the seconds that a waiting caller waits for the current batch before it serves its request at
            the same time; None if it waits as long as needed.
        longest_s: the seconds that a caller waits further if another thread has taken its request; None if it waits
            as long as needed.
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
        """Return the result of a request.

        Raises:
            Unserved: another thread took the request, but failed or took too long.
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
        """Wait until the request is served by another thread, or must be served by its own.

        Returns whether its own thread must serve it.
        """
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
        """Remove waiting requests from the queue, and return them after ``first``, to be served together.

        Requests whose key equals that of a returned request stay in the queue.
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
