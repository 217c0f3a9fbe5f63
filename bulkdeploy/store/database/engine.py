"""Connections to PostgreSQL, and transactions that are repeated after a conflict (one file: they share a session).

No statement changes the session. Each transaction sets its own options, so a pooler may use another session for
each.
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
    """The ways in which the server plans repeated statements.

    KEPT: plans are cached. KEPT_BY_INDEX: plans are cached, and no table is scanned sequentially if an index can be
    used; this suits programs that always select by id and may start with an empty database, whose tables have one
    page each. ANEW: each statement is planned for the current tables; this suits rare statements that read all
    unfinished jobs.
    """

    KEPT = "kept"
    KEPT_BY_INDEX = "kept by index"
    ANEW = "anew"


class WriteWhereReading(Exception):
    """Raised for a statement that may change data on a connection that allows only queries."""

    def __init__(self, statement: str) -> None:
        super().__init__(f"a connection for reading cannot execute: {statement.split(maxsplit=1)[0]}")


class TransactionConflict(Exception):
    """Raised inside a transaction that must be repeated because a concurrent transaction changed the same data."""


class _Question(BegunAnew):
    """Raised inside a transaction that needs the result of a slow call.

    The transaction is rolled back, the call runs, and the transaction is repeated with the result.
    """

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

    Connections that the server closed are detected before they are used. ``prepares`` allows prepared statements;
    it must be False behind a pooler that assigns another session to each transaction and does not support them.
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
    """Return an engine for queries only: each statement sees the committed data, and other statements are rejected.

    The engine uses autocommit: a statement needs one round trip, and three with a transaction around it.
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
        use_native_hstore=False,  # no column has this type, and each engine would query it when it first connects
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
    """Return a URL for SQLAlchemy, whose own parser does not support lists of servers with ports."""
    user, password, database = (given.get(part) for part in ("user", "password", "dbname"))
    query = {name: value for name, value in given.items() if name not in ("user", "password", "dbname")}
    return URL.create("postgresql+psycopg", user, password, database=database, query=query)


def _forget_values(context: ExceptionContext) -> None:
    error, wrapped = context.original_exception, context.sqlalchemy_exception
    if isinstance(error, psycopg.Error) and hide_values(error) and wrapped is not None:
        wrapped.args = (f"({type(error).__name__}) {error.diag.message_primary}",)


def _notice_dropped(connection: psycopg.Connection[Any], record: ConnectionPoolEntry, proxy: object) -> None:
    """Replace a pooled connection that was closed while it was idle.

    On an idle connection the server sends nothing except its closing message, so a readable socket means a closed
    connection. ``pool_pre_ping`` would detect the same and cost a round trip per use.

    Raises:
        InvalidatePoolError: the pool drops all connections as old as this one, and makes another.
    """
    del proxy
    used = record.info.setdefault(USED, False)
    record.info[USED] = True
    if not used:
        return  # the connection is new, so its first use will show whether it works
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
    """Yield a connection for queries: each statement sees the committed data, and no statement can write.

    The connection is committed at the end, because a rollback makes psycopg discard its prepared statements, and
    planning them again costs more than running them. If the connection breaks during this commit, the error is
    ignored: the data that was read is correct.
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

    The statement must be repeatable: if the connection breaks, its outcome is unknown.
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
    """Run ``work`` in one transaction and commit it; after a conflict, roll back and repeat.

    Only the outermost code opens a transaction: an API call's dispatcher, a program's command, a worker's step.
    ``work`` may run more than once, so it must change nothing but the database; other effects belong into
    ``after_commit``. ``at`` is the name of the failpoint before the commit. If the connection breaks during the
    commit, the outcome is determined afterwards (``store.database.commit_outcome``): an error means that nothing
    was changed.

    A conflict is a ``TransactionConflict`` from ``work``, a deadlock, a serialization failure, or a violation of
    one of ONLY_BY_RACES. A transaction that waits too long for a lock (``store.locks.lock_timeout``) is also rolled
    back and repeated; its last attempt waits without this limit. A transaction that uses ``call_outside`` is rolled
    back during the call, and repeated with the result. ``during`` is a context manager that is entered for each
    attempt. Every attempt is a new transaction, so that check and guard use the same snapshot: a retry inside the
    old transaction would compare with rows from before the conflict, and could conflict forever.

    Raises:
        ConflictRetriesExhausted: all of MOST_ATTEMPTS attempts failed. Nothing was changed.
        OutcomeUnknown: the connection failed during the commit, and the outcome could not be determined.
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
    raise ConflictRetriesExhausted(
        f"The transaction failed {MOST_ATTEMPTS} times because of conflicts with others; repeat the call"
    )


def _is_lock_timeout(error: DBAPIError | psycopg.Error) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, psycopg.Error) and cause.sqlstate == LOCK_NOT_AVAILABLE


def _conflict(error: DBAPIError | psycopg.Error) -> str:
    """Return the name of the conflict that a database error reports. Other errors are raised again."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, psycopg.Error):
        if cause.sqlstate in (SERIALIZATION_FAILURE, DEADLOCK_DETECTED):
            return "deadlock"
        if cause.sqlstate == UNIQUE_VIOLATION and cause.diag.constraint_name in ONLY_BY_RACES:
            return "name"
    raise error


def after_commit(connection: Connection, action: Action) -> None:
    """Register an action that runs after ``run_transaction`` has committed, but not after a rollback.

    Actions run in the order of their registration, each of them even if an earlier action failed. The last error is
    raised to the caller of the transaction, which remains committed. If the process dies directly after the commit,
    no action runs, so everything that must not be lost is also written to the database.

    Raises:
        KeyError: ``connection`` is not in such a transaction.
    """
    transaction_of(connection).actions.append(action)


def call_outside(connection: Connection, key: Hashable, call: Callable[[], T]) -> T:
    """Return the result of the long-running function ``call``, which runs while no transaction is open.

    The transaction of ``run_transaction`` is rolled back before the call and repeated afterwards. All repetitions
    use the stored result, which is identified by ``key``. The data on which the result is based may have changed
    meanwhile, so the caller checks it again. Exceptions of ``call`` are raised to the caller of the transaction.

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
