"""Transactions that a dry run rolls back at their end. Without a dry run the same work is committed."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sqlalchemy import Connection, Engine

from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.store.database.engine import run_transaction

T = TypeVar("T")


class _NothingKept(Exception):
    """The transaction of a dry run is given up."""


def run_or_try(
    engine: Engine, work: Callable[[Connection], T], *, dry_run: bool, at: str = Failpoint.CALL_COMMIT
) -> T:
    """Return the result of ``work``, run as ``run_transaction`` does. A dry run is rolled back.

    Raises:
        ConflictRetriesExhausted, OutcomeUnknown: see ``run_transaction``.
    """
    results: list[T] = []

    def once(connection: Connection) -> None:
        results.append(work(connection))
        if dry_run:
            raise _NothingKept

    with suppress(_NothingKept):
        run_transaction(engine, once, at)
    return results[-1]
