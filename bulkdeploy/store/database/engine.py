"""Connections to PostgreSQL, and transactions repeated whole on a conflict (one file: they share a session).

No statement changes a session: what a transaction needs it says itself, so a pooler may give each another session.
"""

import random
import re
import select
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, cast

import orjson
import psycopg
import sqlalchemy
from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.engine.interfaces import ExceptionContext, IsolationLevel
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from bulkdeploy.domain.errors import ConflictRetriesExhausted
from bulkdeploy.processes.failpoints import Failpoint, after, before
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.column_cache import OPTION, ColumnCache, column_cache
from bulkdeploy.store.database.commit_outcome import TransactionMark, mark_transaction, was_committed
from bulkdeploy.store.database.database_url import database_parameters
from bulkdeploy.store.database.hidden_values import hide_values
from bulkdeploy.store.database.request_coalescing import OPTION as COALESCERS
from bulkdeploy.store.database.request_coalescing import Coalescers
from bulkdeploy.store.locks import MOST_LOCK_TRIES
from bulkdeploy.store.transaction import Action, Transaction, attach, transaction_of
from bulkdeploy.telemetry import metrics
from bulkdeploy.telemetry.tracing import BegunAnew

T = TypeVar("T")

SERIALIZATION_FAILURE = "40001"
DEADLOCK_DETECTED = "40P01"
UNIQUE_VIOLATION = "23505"
LOCK_NOT_AVAILABLE = "55P03"
ONLY_BY_RACES = frozenset(
    {
        *("uq_deployments_request_token", "uq_nics_live_mac", "uq_nics_live_vm_name"),
        *("uq_virtual_machines_uuid", "uq_async_jobs_uuid", "uq_events_uuid", "uq_volumes_uuid"),
        "uq_host_claims_consumer",
    }
)
"""Unique indexes that only a race can violate: who writes has looked before, and, made to look again, will see."""

MOST_ATTEMPTS = 20
NOTHING = nullcontext()
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

SERVER_TIMEOUTS = (
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    " -c tcp_user_timeout=30000 -c idle_in_transaction_session_timeout=60000"
)
"""The other way round: a machine that is gone without a word keeps its locks for half a minute, not for hours; a
process that sleeps in the middle of a transaction for one. Options of the connection: a pooler that ignores them
has the database's role say the same (docs/how-to/operations.md). Options in the database's URL follow, and hold."""

READING_TIMEOUT = "-c statement_timeout=60000"
"""No list occupies the server for longer than 60 s, whether its caller still waits or has gone."""

MOST_KNOWN_QUERIES = 2000
READING = re.compile(r"\s*(SELECT|WITH|VALUES|TABLE|SHOW|EXPLAIN)\b", re.IGNORECASE)
"""How statements begin that a connection for reading lets through."""

WRITING = re.compile(r"\b(INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|MERGE\s+INTO|FOR\s+(NO KEY\s+)?UPDATE)\b")
"""What a query may not have in it; SQLAlchemy writes keywords in capitals, values are never in the text."""


class Plans(Enum):
    """The planning of statements that sessions repeat.

    KEPT: a plan is kept. KEPT_BY_INDEX: kept as well, and no table is read whole where an index would do: for who
    names ids in every statement and starts, it may be, in an empty database whose tables are one page each.
    ANEW: each is planned for the tables as they are now: for what is run seldom and looks at all unfinished jobs.
    """

    KEPT = "kept"
    KEPT_BY_INDEX = "kept by index"
    ANEW = "anew"


class WriteWhereReading(Exception):
    """A statement that may change something, on a connection that is for reading."""

    def __init__(self, statement: str) -> None:
        super().__init__(f"a connection for reading was given: {statement.split(maxsplit=1)[0]}")


class TransactionConflict(Exception):
    """Raised inside a transaction that must be repeated from the start: another one was faster."""


class _Question(BegunAnew):
    """Raised inside a transaction that needs an answer from outside: it is undone, and repeated with the answer."""

    def __init__(self, key: Hashable, call: Callable[[], object]) -> None:
        self.key, self.call = key, call
        super().__init__("the transaction is repeated once there is an answer")


def create_engine(
    url: str,
    *,
    pool_size: int = 10,
    application_name: str = "bulkdeploy",
    plans: Plans = Plans.KEPT,
    prepares: bool = True,
) -> Engine:
    """Return an engine for a ``postgresql://`` URL, READ COMMITTED, through psycopg 3.

    Connections that the server dropped are noticed before use. ``prepares``: plans are kept in sessions at all,
    which a pooler that gives each transaction another session may not bear.
    """
    prepare_after = PREPARE_AFTER if prepares and plans is not Plans.ANEW else None
    engine = _engine(url, pool_size, application_name, prepare_after=prepare_after)
    if plans is Plans.KEPT_BY_INDEX:
        event.listen(engine, "begin", _forbid_reading_whole_tables)
    return engine


def _forbid_reading_whole_tables(connection: Connection) -> None:
    connection.exec_driver_sql("SET LOCAL enable_seqscan TO off")


def create_reading_engine(
    url: str, *, pool_size: int = 10, application_name: str = "bulkdeploy", prepares: bool = True
) -> Engine:
    """Return an engine for reading: each statement sees what is committed, and none but queries gets through.

    Nothing is begun or committed: a statement is one round trip, where a transaction around it makes three.
    """
    prepare_after = PREPARE_AFTER if prepares else None
    engine = _engine(
        url,
        pool_size,
        application_name,
        isolation_level="AUTOCOMMIT",
        prepare_after=prepare_after,
        timeouts=f"{SERVER_TIMEOUTS} {READING_TIMEOUT}",
    )
    event.listen(engine, "before_cursor_execute", _forbid_writing)
    engine.update_execution_options(**{COALESCERS: Coalescers()})
    return engine


def _forbid_writing(
    connection: Connection,
    cursor: object,
    statement: str,
    parameters: object,
    context: object,
    many: bool,
) -> None:
    del connection, cursor, parameters, context, many
    if not _is_query(statement):
        raise WriteWhereReading(statement)


@lru_cache(MOST_KNOWN_QUERIES)
def _is_query(statement: str) -> bool:
    return READING.match(statement) is not None and WRITING.search(statement) is None


def _engine(
    url: str,
    pool_size: int,
    application_name: str,
    *,
    isolation_level: IsolationLevel = "READ COMMITTED",
    prepare_after: int | None = PREPARE_AFTER,
    timeouts: str = SERVER_TIMEOUTS,
) -> Engine:
    given = database_parameters(url)
    options = " ".join(part for part in (timeouts, given.pop("options", "")) if part)
    engine = sqlalchemy.create_engine(
        _sqlalchemy_url(given),
        isolation_level=isolation_level,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=30,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={
            "application_name": application_name,
            "prepare_threshold": prepare_after,
            "options": options,
            **{name: value for name, value in SILENCE_OPTIONS.items() if name not in given},
        },
        json_serializer=_json_text,
        json_deserializer=orjson.loads,
        execution_options={OPTION: ColumnCache()},
    )
    event.listen(engine, "checkout", _notice_dropped)
    event.listen(engine, "handle_error", _forget_values)
    return engine


def _sqlalchemy_url(given: Mapping[str, str]) -> URL:
    """Return a URL for SQLAlchemy, whose own reader knows no lists of servers with ports."""
    user, password, database = (given.get(part) for part in ("user", "password", "dbname"))
    query = {name: value for name, value in given.items() if name not in ("user", "password", "dbname")}
    return URL.create("postgresql+psycopg", user, password, database=database, query=query)


def _forget_values(context: ExceptionContext) -> None:
    error, wrapped = context.original_exception, context.sqlalchemy_exception
    if isinstance(error, psycopg.Error) and hide_values(error) and wrapped is not None:
        wrapped.args = (f"({type(error).__name__}) {error.diag.message_primary}",)


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
        return  # made a moment ago: its first use will show
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
    """Yield a connection for reading: each statement sees what is committed, and none can change anything.

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


@contextmanager
def one_statement(engine: Engine) -> Iterator[Connection]:
    """Yield a connection for one statement that commits by itself, at a third of the cost of a transaction.

    Only for what may be repeated: where the connection breaks it is not known whether it was done.
    """
    with engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


def run_transaction(
    engine: Engine,
    work: Callable[[Connection], T],
    at: str = Failpoint.CALL_COMMIT,
    *,
    during: AbstractContextManager[object] = NOTHING,
) -> T:
    """Run ``work`` in one transaction and commit it; on a conflict roll back and run it anew.

    Only an edge opens a transaction: an API call's dispatcher, a program's command, a worker's step. ``work`` may
    run more than once, so it must change nothing but the database; the rest is for ``after_commit``.
    ``at`` is the commit's name among the failpoints. Where the connection breaks during the commit it is found
    out what became of it (``store.database.commit_outcome``): an error means that nothing was changed.

    A conflict is a ``TransactionConflict`` from ``work``, a deadlock, a serialization failure, or a violation of
    one of ONLY_BY_RACES. One that waited too long for a lock (``store.locks.lock_timeout``) gives everything
    back and begins anew, too, until it waits as long as it takes.
    One that calls something outside (``call_outside``) is undone meanwhile, and begins anew with the answer.
    ``during``: entered for each attempt, and left meanwhile.
    Every attempt is a new transaction, so that check and guard share one snapshot. A retry inside the old
    transaction would compare with rows that it had read before the conflict, and could conflict for ever.

    Raises:
        ConflictRetriesExhausted: after MOST_ATTEMPTS; nothing was changed.
        OutcomeUnknown: the database did not come back to say what became of the commit.
    """
    attempt = lock_tries = 0
    answers: dict[Hashable, object] = {}
    while attempt < MOST_ATTEMPTS:
        try:
            with during:
                transaction = Transaction(lock_tries, answers)
                result = _run_once(engine, work, at, transaction)
        except _Question as question:
            answers[question.key] = question.call()
            continue
        except TransactionConflict:
            metrics.CLAIM_CONFLICTS.labels("room").inc()
            column_cache(engine).forget()
            attempt += 1
        except (DBAPIError, psycopg.Error) as error:
            if lock_tries < MOST_LOCK_TRIES and _is_lock_timeout(error):
                metrics.LOCK_TIMEOUTS.inc()
                lock_tries += 1
            else:
                metrics.CLAIM_CONFLICTS.labels(_conflict(error)).inc()
                attempt += 1
        else:
            with ExitStack() as stack:
                for action in reversed(transaction.actions):
                    stack.callback(action, engine)
            return result
        time.sleep(random.uniform(0, 0.002 * 2 ** min(attempt, 7)))  # noqa: S311 - spreads rivals, no secret
    raise ConflictRetriesExhausted(f"The transaction lost {MOST_ATTEMPTS} races in a row; repeat the call")


def _is_lock_timeout(error: DBAPIError | psycopg.Error) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, psycopg.Error) and cause.sqlstate == LOCK_NOT_AVAILABLE


def _conflict(error: DBAPIError | psycopg.Error) -> str:
    """Return the kind of conflict that an error of the database is; another error is raised again."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, psycopg.Error):
        if cause.sqlstate in (SERIALIZATION_FAILURE, DEADLOCK_DETECTED):
            return "deadlock"
        if cause.sqlstate == UNIQUE_VIOLATION and cause.diag.constraint_name in ONLY_BY_RACES:
            return "name"
    raise error


def after_commit(connection: Connection, action: Action) -> None:
    """Have ``action`` run once the transaction of ``run_transaction`` is committed; after a rollback it never runs.

    Actions run in the order they were registered, each of them even if one before it failed; what the last of those
    raised is raised to the caller of the transaction, which stays committed. A process that dies right after the
    commit runs none, so whatever must not be lost stands in the database as well.

    Raises:
        KeyError: ``connection`` is not in such a transaction.
    """
    transaction_of(connection).actions.append(action)


def call_outside(connection: Connection, key: Hashable, call: Callable[[], T]) -> T:
    """Return the result of ``call``, which takes long.

    It is called while no transaction is open and nothing is locked.

    The transaction of ``run_transaction`` is undone for it and begins anew; from then on, however often it is
    repeated, the answer is at hand under ``key``. What it was made of may have changed meanwhile: who gets it looks
    again. What ``call`` raises is raised to the caller of the transaction.

    Raises:
        KeyError: ``connection`` is not in such a transaction.
    """
    answers = transaction_of(connection).answers
    if key not in answers:
        raise _Question(key, call)
    return cast("T", answers[key])


def _run_once(engine: Engine, work: Callable[[Connection], T], at: str, transaction: Transaction) -> T:
    mark: TransactionMark | None = None
    try:
        with engine.begin() as connection:
            result = work(attach(connection, transaction))
            mark = mark_transaction(connection)
            before(at)
    except DBAPIError as error:
        if mark is None or not is_unreachable(error) or not was_committed(engine, mark):
            raise
    after(at)
    return result
