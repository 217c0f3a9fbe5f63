"""Transactions that a dry run rolls back at their end. Without a dry run the same work is committed."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sqlalchemy import Connection, Engine

from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.store.database.engine import run_transaction

T = TypeVar("T")


class _NothingKept(Exception):
    """Raised at the end of a dry run, so that its transaction is rolled back."""


def run_or_try(
    engine: Engine, work: Callable[[Connection], T], *, dry_run: bool, at: str = Failpoint.CALL_COMMIT
) -> T:
    """Run ``work`` in a transaction and return its result. In a dry run, the transaction is rolled back at its end.

    ``work`` is repeated after conflicts with other transactions, as ``run_transaction`` does. ``at`` is the
    failpoint before the commit.

    Raises:
        ConflictRetriesExhausted, OutcomeUnknown: under the same conditions as ``run_transaction``.
    """
    results: list[T] = []

    def once(connection: Connection) -> None:
        results.append(work(connection))
        if dry_run:
            raise _NothingKept

    with suppress(_NothingKept):
        run_transaction(engine, once, at)
    return results[-1]
