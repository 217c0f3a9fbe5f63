"""Shared transactions: calls that come while one is being committed wait, and are then done together (ADR 62).

A transaction for many costs little more than one for one: locks, what is read of a zone, statements and above all
the wait for the disk are there once. So whoever gets the turn takes all who wait, as a database's group commit
does. One who comes alone waits for nobody. Nobody is answered before the commit.

Who would hold the turn for long gives it back, and goes on without it: who waits for a lock of another session's,
asks a program, or loses races again and again.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy import metrics
from bulkdeploy.domain.errors import BulkDeployError, OutcomeUnknown
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.locks import LOCK_TRIES, TURN_TIMEOUT
from bulkdeploy.tracing import BegunAnew

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MOST_TOGETHER = 64
MOST_TRIES = 3
"""So often a race is lost together; then each is tried by itself, so that one does not spoil the others."""
MOST_WAIT = "250ms"
"""So long a lock is waited for in the turn: longer than most transactions hold one, and short for who waits."""


class Apart(Exception):
    """Raised in a shared transaction: these entries, by number, cannot share it; all is undone."""

    def __init__(self, entries: Collection[int]) -> None:
        super().__init__(f"{len(entries)} cannot share the transaction")
        self.entries = frozenset(entries)


@dataclass(slots=True)
class _Entry(Generic[T, R]):
    """A request that waits, and its outcome; ``is_apart``: nothing was done, and it is to be tried by itself."""

    requested: T
    is_over: bool = False
    is_apart: bool = False
    result: list[R] | None = None
    error: BaseException | None = None


class SharedTransaction(Generic[T, R]):
    """What several threads of a process do in one transaction; one such transaction at a time.

    Args:
        engine: where.
        work: does what is asked for in a transaction of ``run_transaction``, with a result for each, or raises.
            Of one alone its error is the answer. Of several all is undone, and those of ``Apart``, or all of them
            where it was another error, are tried by themselves; what goes wrong after it is everybody's error.
    """

    def __init__(self, engine: Engine, work: Callable[[Connection, Sequence[T]], Sequence[R]]) -> None:
        self._engine, self._work = engine, work
        self._turn, self._gathering = Lock(), Lock()
        self._waiting: deque[_Entry[T, R]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait while others are being committed."""
        return len(self._waiting)

    def run(self, requested: T) -> R:
        """What ``work`` makes of it, once that is committed; raises what ``work`` and the commit raise."""
        entry: _Entry[T, R] = _Entry(requested)
        with self._gathering:
            self._waiting.append(entry)
        with self._turn:
            while not entry.is_over:
                self._run_those_who_wait()
        if entry.is_apart:
            return run_transaction(self._engine, lambda connection: self._work(connection, [requested])[0])
        if entry.result is None:
            raise entry.error or OutcomeUnknown(
                "It is not known whether the call was done: look before repeating it"
            )
        return entry.result[0]

    def _run_those_who_wait(self) -> None:
        with self._gathering:
            entries = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
        try:
            self._run_together(entries)
        finally:
            for entry in entries:
                entry.is_over = True

    def _run_together(self, entries: Sequence[_Entry[T, R]]) -> None:
        """Give all of them a result or an error, but for those that are to be tried by themselves."""
        while entries:
            attempt = _Attempt(self._work, [entry.requested for entry in entries])
            try:
                results = run_transaction(self._engine, attempt)
            except Apart as apart:
                for number in apart.entries:
                    entries[number].is_apart = True
                entries = [entry for entry in entries if not entry.is_apart]
                continue
            except BaseException as error:
                self._fail(entries, error, is_undone=not attempt.is_done)
                if not isinstance(error, Exception):
                    raise
            else:
                for entry, result in zip(entries, results, strict=True):
                    entry.result = [result]
                metrics.SHARED_TRANSACTIONS.observe(len(entries))
            return

    def _fail(self, entries: Sequence[_Entry[T, R]], error: BaseException, *, is_undone: bool) -> None:
        """An error that may be anybody's: of several that were undone it is not said whose."""
        is_apart = is_undone and len(entries) > 1
        for entry in entries:
            entry.is_apart, entry.error = is_apart, None if is_apart else error
        if is_apart and not isinstance(error, BulkDeployError):
            log.warning("shared_transaction_failed", calls=len(entries), exc_info=error)


class _Attempt(Generic[T, R]):
    """The work of several, for ``run_transaction``; ``is_done``: it may be committed: never repeat it."""

    def __init__(self, work: Callable[[Connection, Sequence[T]], Sequence[R]], requested: Sequence[T]) -> None:
        self._work, self._requested = work, requested
        self._tries, self.is_done = 0, False

    def __call__(self, connection: Connection) -> Sequence[R]:
        self._tries, self.is_done = self._tries + 1, False
        if self._tries > MOST_TRIES or connection.get_execution_options()[LOCK_TRIES]:
            raise Apart(range(len(self._requested)))
        try:
            results = self._work(connection.execution_options(**{TURN_TIMEOUT: MOST_WAIT}), self._requested)
        except BegunAnew:
            raise Apart(range(len(self._requested))) from None
        if len(results) != len(self._requested):
            raise TypeError(f"{len(results)} results of {len(self._requested)} calls")
        self.is_done = True
        return results
