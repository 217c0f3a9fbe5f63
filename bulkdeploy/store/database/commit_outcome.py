"""The outcome of a commit whose response was lost, found by the id of the transaction.

If a connection breaks during COMMIT, the client does not know the outcome. Therefore the transaction's id is
recorded before the commit, and its status is queried afterwards on another connection.

A server that crashed may have lost the transaction and assigned its id to another transaction. In this case the
status "committed" proves nothing, but any other status still proves that the transaction was not committed.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from bulkdeploy.domain.errors import OutcomeUnknown
from bulkdeploy.store.database.server_life import LIFE_BEGAN

PATIENCE_S = 15.0
POLL_S = 0.1
NOT_YET_GIVEN = "22023"
"""SQLSTATE of a question about a number in the future: the server forgot that it had given it."""


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """The identity of a transaction: its number, its server process, and the start time of the server."""

    number: str
    backend_pid: int
    life_began: datetime


def mark_transaction(connection: Connection) -> TransactionMark | None:
    """Return the identity of the running transaction, in one round trip, or None if it has written nothing."""
    number, backend_pid, life_began = connection.execute(_MARK).one()
    return None if number is None else TransactionMark(number, backend_pid, life_began)


def was_committed(engine: Engine, mark: TransactionMark) -> bool:
    """Return whether the transaction was committed.

    If the transaction is still open although its client's connection broke, its session is terminated.

    Raises:
        OutcomeUnknown: the database did not answer within PATIENCE_S seconds, or has recovered from a crash since.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(SQLAlchemyError), engine.connect() as connection:
            status, life_began = _request(connection, mark)
            if status == "committed" and life_began != mark.life_began:
                break
            if status != "in progress":
                return bool(status == "committed")
            connection.execute(_END, {"number": mark.number, "pid": mark.backend_pid})
        time.sleep(POLL_S)
    raise OutcomeUnknown(
        "The connection to the database failed during the commit, so it is not known whether the call took effect. "
        "Check this before repeating the call, or repeat it with the same requesttoken"
    )


def _request(connection: Connection, mark: TransactionMark) -> tuple[str | None, datetime | None]:
    try:
        status, life_began = connection.execute(_STATUS, {"number": mark.number}).one()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == NOT_YET_GIVEN:
            return "aborted", None
        raise
    return status, life_began


_MARK = text(
    "SELECT CAST(pg_current_xact_id_if_assigned() AS text), pg_backend_pid(), $life".replace("$life", LIFE_BEGAN)
)
_STATUS = text("SELECT pg_xact_status(CAST(CAST(:number AS text) AS xid8)), $life".replace("$life", LIFE_BEGAN))
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid"
    " AND backend_xid = CAST(CAST(CAST(:number AS text) AS xid8) AS xid)"
)
