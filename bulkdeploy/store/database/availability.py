"""Whether the database is there, and which errors say that it is not."""

import psycopg
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionInTime

from bulkdeploy.domain.errors import OutcomeUnknown
from bulkdeploy.store.migrations.revisions import SchemaMismatch

REFUSING = ("08", "57P", "53300", "25P03", "25P04")
"""SQLSTATEs of a lost connection, a server that stops or starts, too many connections, and a transaction that was
ended because its process paused for too long."""


def is_unreachable(error: BaseException) -> bool:
    """Whether an error means that the database can not be reached, rather than that it refused a statement.

    One of another release is, to a program of this one, not there.
    """
    if isinstance(error, NoConnectionInTime | OutcomeUnknown | SchemaMismatch):
        return True
    if isinstance(error, psycopg.Error):  # of a driver's own database, past SQLAlchemy
        if error.sqlstate is None:
            return isinstance(error, psycopg.OperationalError)
        return error.sqlstate.startswith(REFUSING)
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error, OperationalError | InterfaceError)
    return str(state).startswith(REFUSING)


def ping(connection: Connection) -> None:
    """A round trip to the database."""
    connection.execute(select(1))
