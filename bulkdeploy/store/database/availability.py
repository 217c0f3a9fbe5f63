"""Whether the database is there, and which errors say that it is not."""

import psycopg
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionInTime

from bulkdeploy.domain.errors import OutcomeUnknown
from bulkdeploy.store.migrations.revisions import SchemaMismatch

REFUSING = ("08", "57P", "53300")
"""SQLSTATEs of a lost connection, a server that stops or starts, and too many connections."""


def is_unreachable(error: BaseException) -> bool:
    """Whether an error means that the database can not be reached, rather than that it refused a statement.

    One of another release is, to a program of this one, not there.
    """
    if isinstance(error, NoConnectionInTime | OutcomeUnknown | SchemaMismatch):
        return True
    if isinstance(error, psycopg.OperationalError):  # of a driver's own database, past SQLAlchemy
        return error.sqlstate is None or error.sqlstate.startswith(REFUSING)
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
