"""Connections to PostgreSQL, and transactions that are repeated whole when they lose a race."""

import random
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

import orjson
import psycopg
import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.interfaces import ExceptionContext, IsolationLevel
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from bulkdeploy import meters
from bulkdeploy.crash_points import CrashPoint, after, before
from bulkdeploy.domain.errors import ConflictRetriesExhausted
from bulkdeploy.store.availability import is_unreachable
from bulkdeploy.store.commit_outcome import TransactionMark, mark_transaction, was_committed
from bulkdeploy.store.kept_columns import OPTION, KeptColumns, kept_columns
from bulkdeploy.store.shared_reading import OPTION as SHARED_READINGS
from bulkdeploy.store.shared_reading import SharedReadings

T = TypeVar("T")

SERIALIZATION_FAILURE = "40001"
DEADLOCK_DETECTED = "40P01"
MOST_ATTEMPTS = 20
USED = "bulkdeploy_used"
PREPARE_AFTER = 3
"""Uses of a statement in a session until its plan is kept."""


SILENCE_OPTIONS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A server that is gone without a word is noticed after 25 to 30 s, not after hours."""

FAREWELL = (
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;"
    " SET tcp_user_timeout = 30000; SET idle_in_transaction_session_timeout = 60000"
)
"""The other way round: a machine that is gone without a word keeps its locks for half a minute, not for hours; a
process that sleeps in the middle of a transaction for one."""


class Plans(Enum):
    """How sessions plan statements that they repeat.

    KEPT: a plan is kept. KEPT_BY_INDEX: kept as well, and no table is read whole where an index would do: for who
    names ids in every statement and starts, it may be, in an empty database whose tables are one page each.
    ANEW: each is planned for the tables as they are now: for what is run seldom and looks at all unfinished jobs.
    """

    KEPT = "kept"
    KEPT_BY_INDEX = "kept by index"
    ANEW = "anew"


class TransactionConflict(Exception):
    """Raised inside a transaction that must be repeated from the start: another one was faster."""


def create_engine(
    url: str, *, pool_size: int = 10, application_name: str = "bulkdeploy", plans: Plans = Plans.KEPT
) -> Engine:
    """An engine for a ``postgresql://`` URL, READ COMMITTED, through psycopg 3.

    Connections that the server dropped are noticed before use.
    """
    prepare_after = None if plans is Plans.ANEW else PREPARE_AFTER
    engine = _engine(url, pool_size, application_name, prepare_after=prepare_after)
    if plans is Plans.KEPT_BY_INDEX:
        event.listen(engine, "connect", _forbid_reading_whole_tables)
    return engine


def _forbid_reading_whole_tables(connection: psycopg.Connection[Any], record: object) -> None:
    del record
    connection.execute("SET enable_seqscan TO off")
    connection.commit()


def create_reading_engine(url: str, *, pool_size: int = 10, application_name: str = "bulkdeploy") -> Engine:
    """An engine for reading: each statement sees what is committed, and none can change anything.

    Nothing is begun or committed: a statement is one round trip, where a transaction around it makes three.
    """
    engine = _engine(url, pool_size, application_name, isolation_level="AUTOCOMMIT")
    event.listen(engine, "connect", _forbid_writing)
    engine.update_execution_options(**{SHARED_READINGS: SharedReadings()})
    return engine


def _forbid_writing(connection: psycopg.Connection[Any], record: object) -> None:
    del record
    connection.execute("SET default_transaction_read_only TO on")
    connection.commit()


def _engine(
    url: str,
    pool_size: int,
    application_name: str,
    *,
    isolation_level: IsolationLevel = "READ COMMITTED",
    prepare_after: int | None = PREPARE_AFTER,
) -> Engine:
    engine = sqlalchemy.create_engine(
        sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"),
        isolation_level=isolation_level,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=30,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={"application_name": application_name, "prepare_threshold": prepare_after, **SILENCE_OPTIONS},
        json_serializer=_json_text,
        json_deserializer=orjson.loads,
        execution_options={OPTION: KeptColumns()},
    )
    event.listen(engine, "connect", _expect_farewell)
    event.listen(engine, "checkout", _notice_dropped)
    event.listen(engine, "handle_error", _forget_values)
    return engine


def _forget_values(context: ExceptionContext) -> None:
    """Errors end in logs, rows hold hashes and encrypted secrets: PostgreSQL's DETAIL shows them, and goes."""
    error, wrapped = context.original_exception, context.sqlalchemy_exception
    if isinstance(error, psycopg.Error) and error.diag.message_detail is not None:
        error.args = (error.diag.message_primary,)
        if wrapped is not None:
            wrapped.args = (f"({type(error).__name__}) {error.diag.message_primary}",)


def _expect_farewell(connection: psycopg.Connection[Any], record: object) -> None:
    del record
    connection.execute(FAREWELL)
    connection.commit()


def _notice_dropped(connection: psycopg.Connection[Any], record: ConnectionPoolEntry, proxy: object) -> None:
    """Replace a pooled connection that was closed meanwhile.

    To an idle connection the server says nothing but farewell, so there is something to read only then. Asking
    it for a sign of life (``pool_pre_ping``) would tell no more and cost a round trip per use.

    Raises:
        InvalidatePoolError: the pool drops all connections as old as this one, and makes another.
    """
    del proxy
    used = record.info.setdefault(USED, False)
    record.info[USED] = True
    if not used:
        return  # made a moment ago: whoever uses it will see
    if connection.closed or _readable(connection.fileno()):
        raise InvalidatePoolError


def _readable(descriptor: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(0))


def _json_text(value: object) -> str:
    return orjson.dumps(value).decode()


@contextmanager
def read_only(engine: Engine) -> Iterator[Connection]:
    """A connection for reading: each statement sees what is committed, and none can change anything.

    Committed at the end, for a rollback makes psycopg forget its prepared statements, and planning them anew
    costs more than running them. A connection that breaks then has done what it was for: what was read is true,
    and what was written meanwhile on others is not undone.
    """
    with engine.connect() as connection:
        yield connection.execution_options(postgresql_readonly=True)
        try:
            connection.commit()
        except DBAPIError as error:
            if not is_unreachable(error):
                raise


def run_transaction(engine: Engine, work: Callable[[Connection], T], at: CrashPoint = CrashPoint.CALL_COMMIT) -> T:
    """Run ``work`` in one transaction and commit it; on a conflict roll back and run it anew.

    ``at`` is the commit's name among the crash points. Where the connection breaks during the commit it is found
    out what became of it (``store.commit_outcome``): an error means that nothing was changed.

    A conflict is a ``TransactionConflict`` from ``work``, a deadlock or a serialization failure.
    Every attempt is a NEW transaction, so that check and guard share one snapshot (reference:
    openstack.md section 3 shows what retrying inside one transaction does).

    Raises:
        ConflictRetriesExhausted: after MOST_ATTEMPTS; nothing was changed.
        OutcomeUnknown: the database did not come back to say what became of the commit.
    """
    for attempt in range(MOST_ATTEMPTS):
        try:
            return _run_once(engine, work, at)
        except TransactionConflict:
            meters.CLAIM_CONFLICTS.labels("room").inc()
            kept_columns(engine).forget()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in (SERIALIZATION_FAILURE, DEADLOCK_DETECTED):
                raise
            meters.CLAIM_CONFLICTS.labels("deadlock").inc()
        time.sleep(random.uniform(0, 0.002 * 2 ** min(attempt, 7)))  # noqa: S311 - spreads rivals, no secret
    raise ConflictRetriesExhausted(f"The transaction lost {MOST_ATTEMPTS} races in a row; repeat the call")


def _run_once(engine: Engine, work: Callable[[Connection], T], at: CrashPoint) -> T:
    mark: TransactionMark | None = None
    try:
        with engine.begin() as connection:
            result = work(connection)
            mark = mark_transaction(connection)
            before(at)
    except DBAPIError as error:
        if mark is None or not is_unreachable(error) or not was_committed(engine, mark):
            raise
    after(at)
    return result
