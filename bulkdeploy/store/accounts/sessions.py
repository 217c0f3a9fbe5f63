"""Sessions of logged-in users, and the deletion of expired sessions.

The database stores only the SHA-256 of session tokens and session keys, so a reader of the table cannot use a
session. All times are the database's.
"""

import hashlib
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, bindparam, delete, func, insert, update

from bulkdeploy.domain.accounts.accounts import AccountState, Caller
from bulkdeploy.domain.accounts.call_guards import CallGuards
from bulkdeploy.store.accounts.callers import caller_of, callers, guards_of, is_enabled
from bulkdeploy.store.accounts.password_locks import is_locked
from bulkdeploy.store.tables.accounts import sessions, users

IDLE_SECONDS = 1800
"""Seconds without a call after which a session ends (CloudStack's ``session.timeout``)."""

TOUCH_AFTER_SECONDS = 30
"""A call prolongs its session only when this many seconds have passed since the last that did."""


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that has not expired.

    ``due`` means that the session must be prolonged. ``guards`` restrict its calls.
    """

    caller: Caller
    enabled: bool
    guards: CallGuards
    session_key_hash: bytes
    due: bool


BY_TOKEN = (
    callers(
        sessions.c.session_key_hash,
        (sessions.c.last_used < func.now() - timedelta(seconds=TOUCH_AFTER_SECONDS)).label("due"),
    )
    .join(sessions, sessions.c.user_id == users.c.id)
    .where(sessions.c.token_hash == bindparam("token_hash"), sessions.c.expires > func.now())
)


def digest(secret: str) -> bytes:
    """Return the stored form of a session token or session key: its SHA-256."""
    return hashlib.sha256(secret.encode()).digest()


def session_by_token(connection: Connection, token: str) -> OpenSession | None:
    """Return the session with this token, or None if there is no such session or it has expired."""
    row = connection.execute(BY_TOKEN, {"token_hash": digest(token)}).mappings().first()
    if row is None:
        return None
    return OpenSession(caller_of(row), is_enabled(row), guards_of(row), bytes(row["session_key_hash"]), row["due"])


def insert_session(connection: Connection, user_id: int, token: str, session_key: str) -> None:
    """Insert a session of the user that expires in IDLE_SECONDS, and delete all expired sessions of any user."""
    delete_expired_sessions(connection)
    connection.execute(
        insert(sessions).values(
            token_hash=digest(token),
            session_key_hash=digest(session_key),
            user_id=user_id,
            expires=func.now() + timedelta(seconds=IDLE_SECONDS),
        )
    )


def delete_expired_sessions(connection: Connection) -> None:
    """Delete the sessions that have expired."""
    connection.execute(delete(sessions).where(sessions.c.expires < func.now()))


def prolong_session(connection: Connection, token: str) -> None:
    """Extend a session that has not expired by IDLE_SECONDS from now."""
    connection.execute(
        update(sessions)
        .where(sessions.c.token_hash == digest(token), sessions.c.expires > func.now())
        .values(last_used=func.now(), expires=func.now() + timedelta(seconds=IDLE_SECONDS))
    )


def delete_session(connection: Connection, token: str) -> None:
    """Delete the session with this token, if there is one."""
    connection.execute(delete(sessions).where(sessions.c.token_hash == digest(token)))


def accept_login(connection: Connection, user_id: int) -> bool:
    """Reset the failure count of a user who entered the right password.

    Returns False if the user is not enabled or if the password was locked meanwhile. The failures are counted in
    the same row, so parallel guesses cannot bypass the count.
    """
    accepted = connection.execute(
        update(users)
        .where(users.c.id == user_id, users.c.state == AccountState.ENABLED.value, ~is_locked())
        .values(failed_logins=0)
        .returning(users.c.id)
    )
    return accepted.first() is not None
