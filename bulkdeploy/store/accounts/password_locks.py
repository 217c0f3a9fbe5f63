"""Locks on passwords after too many failed logins, until an administrator enables the user. API keys stay valid.

A locked password never matches, and the error message does not reveal the lock. The default admin's password is
never locked; guesses at it are delayed like all others (``services.accounts.login_attempts``).
"""

from sqlalchemy import BigInteger, ColumnElement, Connection, Text, and_, case, cast, null, select, update

from bulkdeploy.store.configuration.configurations import global_value
from bulkdeploy.store.rows.filters import Condition
from bulkdeploy.store.tables.accounts import users

ALLOWED = cast(global_value("incorrect.login.attempts.allowed"), BigInteger)


def is_locked() -> Condition:
    """Return the SQL condition that the user's password is locked."""
    return and_(ALLOWED > 0, users.c.failed_logins >= ALLOWED, users.c.is_default.is_(False))


def unlocked_password() -> ColumnElement[str | None]:
    """Return the SQL expression for the hash of the user's password, which is NULL if the password is locked."""
    return case((is_locked(), cast(null(), Text)), else_=users.c.password_hash)


def password_hash_of(connection: Connection, user_id: int) -> str | None:
    """Return the hash of a live user's password.

    Returns None if there is no such user, or if the user has no password or a locked one.
    """
    query = select(unlocked_password()).where(users.c.id == user_id, users.c.removed.is_(None))
    return connection.execute(query).scalar_one_or_none()


def count_failure(connection: Connection, user_id: int) -> bool:
    """Count a wrong password. Return whether this failure has locked the password."""
    counted = (
        update(users)
        .where(users.c.id == user_id)
        .values(failed_logins=users.c.failed_logins + 1)
        .returning(and_(is_locked(), users.c.failed_logins == ALLOWED))
    )
    return bool(connection.execute(counted).scalar())
