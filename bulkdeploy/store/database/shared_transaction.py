"""Shared transactions: calls that arrive during a commit wait, and are then committed together (ADR 62).

A transaction for many calls costs little more than a transaction for one call: locks, the reads of a zone,
statements and above all the wait for the disk are shared (``joined_requests``). No call returns before the commit.

A shared transaction that would delay its calls for long is given up, and its calls are run one by one. This happens
if it waits for a lock of another session, must run a program, or repeatedly conflicts with other transactions.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy.domain.errors import BulkDeployError, OutcomeUnknown
from bulkdeploy.processes.joined_requests import JoinedRequests, Unserved
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.transaction import transaction_of
from bulkdeploy.telemetry import metrics
from bulkdeploy.telemetry.tracing import BegunAnew

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MOST_TOGETHER = 64
MOST_TRIES = 3
"""So often a race is lost together; then each is tried by itself, so that one does not spoil the others."""
MOST_WAIT = "250ms"
"""So long a lock is waited for in the turn: longer than most transactions hold one, and short for who waits."""


class MustRunAlone(Exception):
    """Raised in a shared transaction if some of its requests must run alone, in transactions of their own.

    ``entries`` are the positions of these requests. The shared transaction is rolled back.
    """

    def __init__(self, entries: Collection[int]) -> None:
        super().__init__(f"{len(entries)} cannot share the transaction")
        self.entries = frozenset(entries)


@dataclass(slots=True)
class _Outcome(Generic[R]):
    """The outcome of one request in a shared transaction.

    ``is_apart`` means that nothing was done and the request must be repeated alone. ``together`` is the number of
    requests that were committed together; it is set for one of them only.
    """

    is_apart: bool = False
    together: int = 0
    result: list[R] | None = None
    error: BaseException | None = None


class SharedTransaction(Generic[T, R]):
    """A runner that commits the requests of several threads in one transaction; one transaction at a time.

    Args:
        engine: the database.
        work: processes the requests in a transaction of ``run_transaction`` and returns one result per request. If
            it raises for a single request, ``run`` raises the same error. If it raises for several requests, all of
            them are rolled back, and the requests of ``MustRunAlone``, or all of them after another error,
            run alone. An error of the commit is raised for all requests.
    """

    def __init__(self, engine: Engine, work: Callable[[Connection, Sequence[T]], Sequence[R]]) -> None:
        self._engine, self._work = engine, work
        self._requests: JoinedRequests[T, _Outcome[R]] = JoinedRequests(self._run_together, largest=MOST_TOGETHER)

    @property
    def waiting(self) -> int:
        """The number of requests that wait while others are being committed."""
        return self._requests.waiting

    def run(self, requested: T) -> R:
        """Process this request together with others by ``work``, and return its result after the commit.

        Errors of ``work`` and of the commit are raised.
        """
        try:
            outcome = self._requests.run(requested)
        except Unserved as unserved:
            raise OutcomeUnknown("The outcome of the call is unknown: check before you repeat it") from unserved
        if outcome.together:
            metrics.SHARED_TRANSACTIONS.observe(outcome.together)
        if outcome.is_apart:
            return run_transaction(self._engine, lambda connection: self._work(connection, [requested])[0])
        if outcome.result is None:
            raise outcome.error or TypeError("a request without result and error")
        return outcome.result[0]

    def _run_together(self, requests: Sequence[T]) -> Sequence[_Outcome[R]]:
        """Return the outcome of each request: a result, an error, or that the request must run alone."""
        outcomes: list[_Outcome[R]] = [_Outcome() for _ in requests]
        together = list(range(len(requests)))
        while together:
            attempt = _Attempt(self._work, [requests[number] for number in together])
            try:
                results = run_transaction(self._engine, attempt)
            except MustRunAlone as apart:
                for at in apart.entries:
                    outcomes[together[at]].is_apart = True
                together = [number for number in together if not outcomes[number].is_apart]
                continue
            except Exception as error:  # noqa: BLE001 - each caller raises its own
                self._fail([outcomes[number] for number in together], error, is_undone=not attempt.is_done)
            else:
                for number, result in zip(together, results, strict=True):
                    outcomes[number].result = [result]
                outcomes[together[0]].together = len(together)
            break
        return outcomes

    def _fail(self, outcomes: Sequence[_Outcome[R]], error: Exception, *, is_undone: bool) -> None:
        """Write an error into all outcomes.

        If several requests were rolled back, mark them to run alone instead.
        """
        is_apart = is_undone and len(outcomes) > 1
        for outcome in outcomes:
            outcome.is_apart, outcome.error = is_apart, None if is_apart else error
        if is_apart and not isinstance(error, BulkDeployError):
            log.warning("shared_transaction_failed", calls=len(outcomes), exc_info=error)


class _Attempt(Generic[T, R]):
    """The combined work of several requests for ``run_transaction``.

    ``is_done`` means that the work may have been committed and must not be repeated.
    """

    def __init__(self, work: Callable[[Connection, Sequence[T]], Sequence[R]], requested: Sequence[T]) -> None:
        self._work, self._requested = work, requested
        self._tries, self.is_done = 0, False

    def __call__(self, connection: Connection) -> Sequence[R]:
        self._tries, self.is_done = self._tries + 1, False
        transaction = transaction_of(connection)
        if self._tries > MOST_TRIES or transaction.lock_tries:
            raise MustRunAlone(range(len(self._requested)))
        transaction.turn_timeout = MOST_WAIT
        try:
            results = self._work(connection, self._requested)
        except BegunAnew:
            raise MustRunAlone(range(len(self._requested))) from None
        if len(results) != len(self._requested):
            raise TypeError(f"{len(results)} results of {len(self._requested)} calls")
        self.is_done = True
        return results
