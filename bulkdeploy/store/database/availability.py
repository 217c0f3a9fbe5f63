"""The availability of the database, and the errors that mean that it cannot serve at the moment."""

import psycopg
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionInTime

from bulkdeploy.domain.errors import OutcomeUnknown
from bulkdeploy.store.migrations.revisions import SchemaMismatch

REFUSING = ("08", "53", "57", "58", "25P03", "25P04")
"""Beginnings of the SQLSTATEs after which the same statement may succeed later, without any change to it.

They are a lost connection, a lack of resources (disk, memory, connections), an operator's intervention (a shutdown,
a cancelled statement, a timeout), an error of the server's system, and a transaction that the server ended because
its process paused for too long.
"""

REASONS = {
    "53100": "its disk is full",
    "53200": "it has no memory left",
    "53300": "it has too many connections",
    "53400": "a limit of its configuration is reached",
    "57014": "a statement was cancelled or took longer than its time limit",
    "57P": "it is stopping or starting",
    "58": "its operating system reported an error",
    "53": "it lacks a resource",
    "57": "an operator intervened",
}
"""What a beginning of a SQLSTATE means to the caller, the longest beginnings first."""


def is_unreachable(error: BaseException) -> bool:
    """Return whether an error means that the database cannot serve now, rather than that it rejected a statement.

    A database of another release cannot serve a program of this release.
    """
    if isinstance(error, NoConnectionInTime | OutcomeUnknown | SchemaMismatch):
        return True
    if isinstance(error, psycopg.Error):  # an error of a driver's own database, which does not use SQLAlchemy
        if error.sqlstate is None:
            return isinstance(error, psycopg.OperationalError)
        return error.sqlstate.startswith(REFUSING)
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    state = _sqlstate(error)
    if state is None:
        return isinstance(error, OperationalError | InterfaceError)
    return state.startswith(REFUSING)


def unavailability(error: BaseException) -> str | None:
    """Return the reason why the database cannot serve now, or None if it cannot be reached at all."""
    state = _sqlstate(error) or ""
    return next((reason for beginning, reason in REASONS.items() if state.startswith(beginning)), None)


def _sqlstate(error: BaseException) -> str | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    return None if state is None else str(state)


def ping(connection: Connection) -> None:
    """Execute a trivial statement, to check the connection to the database."""
    connection.execute(select(1))
