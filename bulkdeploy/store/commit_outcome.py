"""What became of a commit whose answer did not arrive: PostgreSQL remembers, by the transaction's number.

A connection that breaks during COMMIT leaves its user in doubt. So the number is noted before, and asked for
afterwards on another connection.
"""

import time
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from bulkdeploy.domain.errors import OutcomeUnknown

PATIENCE_S = 15.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """A transaction by its number, and the server's process in which it runs."""

    number: str
    backend_pid: int


def mark_transaction(connection: Connection) -> TransactionMark | None:
    """Note the running transaction, in one round trip; None: it has written nothing."""
    number, backend_pid = connection.execute(_MARK).one()
    return None if number is None else TransactionMark(number, backend_pid)


def was_committed(engine: Engine, mark: TransactionMark) -> bool:
    """Whether the transaction was committed. One that still runs is ended, for nobody can finish it any more.

    Raises:
        OutcomeUnknown: the database did not tell within PATIENCE_S.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(SQLAlchemyError), engine.connect() as connection:
            status = connection.execute(_STATUS, {"number": mark.number}).scalar_one()
            if status != "in progress":
                return bool(status == "committed")
            connection.execute(_END, {"number": mark.number, "pid": mark.backend_pid})
        time.sleep(POLL_S)
    raise OutcomeUnknown(
        "The database went away while the call was being committed: whether it was done is not known. "
        "Look before you repeat it, or repeat it with the same requesttoken"
    )


_MARK = text("SELECT CAST(pg_current_xact_id_if_assigned() AS text), pg_backend_pid()")
_STATUS = text("SELECT pg_xact_status(CAST(CAST(:number AS text) AS xid8))")
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid"
    " AND backend_xid = CAST(CAST(CAST(:number AS text) AS xid8) AS xid)"
)
