"""Connections to PostgreSQL, and transactions that are repeated whole when they lose a race."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import orjson
import sqlalchemy
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from bulkdeploy.crash_points import CrashPoint, after, before
from bulkdeploy.domain.errors import ConflictRetriesExhausted
from bulkdeploy.store.kept_columns import OPTION, KeptColumns, kept_columns

T = TypeVar("T")

SERIALIZATION_FAILURE = "40001"
DEADLOCK_DETECTED = "40P01"
MOST_ATTEMPTS = 20


class TransactionConflict(Exception):
    """Raised inside a transaction that must be repeated from the start: another one was faster."""


def create_engine(url: str, *, pool_size: int = 10, application_name: str = "bulkdeploy") -> Engine:
    """An engine for a ``postgresql://`` URL, READ COMMITTED, through psycopg 3.

    Connections that the server dropped are noticed before use (``pool_pre_ping`` costs a round
    trip; a stale connection would cost a request).
    """
    return sqlalchemy.create_engine(
        sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=30,
        pool_use_lifo=True,
        pool_pre_ping=True,
        connect_args={"application_name": application_name, "prepare_threshold": 3},
        json_serializer=_json_text,
        json_deserializer=orjson.loads,
        execution_options={OPTION: KeptColumns()},
    )


def _json_text(value: object) -> str:
    return orjson.dumps(value).decode()


@contextmanager
def read_only(engine: Engine) -> Iterator[Connection]:
    """A connection for reading: each statement sees what is committed, and none can change anything.

    Committed at the end, for a rollback makes psycopg forget its prepared statements, and planning them anew
    costs more than running them.
    """
    with engine.connect() as connection:
        yield connection.execution_options(postgresql_readonly=True)
        connection.commit()


def run_transaction(engine: Engine, work: Callable[[Connection], T], at: CrashPoint | None = None) -> T:
    """Run ``work`` in one transaction and commit it; on a conflict roll back and run it anew.

    ``at`` is the commit's name among the crash points.

    A conflict is a ``TransactionConflict`` from ``work``, a deadlock or a serialization failure.
    Every attempt is a NEW transaction, so that check and guard share one snapshot (reference:
    openstack.md section 3 shows what retrying inside one transaction does).

    Raises:
        ConflictRetriesExhausted: after MOST_ATTEMPTS; nothing was changed.
    """
    for attempt in range(MOST_ATTEMPTS):
        try:
            return _run_once(engine, work, at)
        except TransactionConflict:
            kept_columns(engine).forget()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in (SERIALIZATION_FAILURE, DEADLOCK_DETECTED):
                raise
        time.sleep(random.uniform(0, 0.002 * 2 ** min(attempt, 7)))  # noqa: S311 - spreads rivals, no secret
    raise ConflictRetriesExhausted(f"The transaction lost {MOST_ATTEMPTS} races in a row; repeat the call")


def _run_once(engine: Engine, work: Callable[[Connection], T], at: CrashPoint | None) -> T:
    with engine.begin() as connection:
        result = work(connection)
        before(at)
    after(at)
    return result
