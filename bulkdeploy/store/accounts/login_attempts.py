"""Attempts to log in, counted before the password is checked, so that concurrent attempts are counted, too.

All times are the database's. The table is not logged: after a crash of the database, all counts are zero.
"""

import math

from sqlalchemy import Connection, Double, cast, delete, extract, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.accounts.login_delays import FORGOTTEN_AFTER_S, KNOWN_FOR_DAYS, Delay
from bulkdeploy.store.tables.accounts import known_logins, login_attempts

attempt = login_attempts.c
AGE_S = cast(extract("epoch", func.clock_timestamp() - attempt.last_attempt), Double)
FORGOTTEN = or_(AGE_S > FORGOTTEN_AFTER_S, AGE_S < -1)
"""Also where the clock was set back: no login waits for a time that never was."""


def count_attempt(connection: Connection, subject: str, delay: Delay) -> int:
    """Count a login attempt and return 0, or return the seconds that the subject must wait before the next one.

    An attempt that must wait is not counted. Concurrent attempts are counted one after the other.
    """
    connection.execute(delete(login_attempts).where(FORGOTTEN))
    fresh = insert(login_attempts).values(subject=subject, failures=0, last_attempt=func.clock_timestamp())
    connection.execute(fresh.on_conflict_do_nothing())
    query = select(attempt.failures, AGE_S.label("age_s")).where(attempt.subject == subject)
    failures, age_s = connection.execute(query.with_for_update()).one()
    wait_s: int = math.ceil(delay.after(failures) - age_s)
    if wait_s > 0:
        return wait_s
    counted = {"failures": attempt.failures + 1, "last_attempt": func.clock_timestamp()}
    connection.execute(update(login_attempts).where(attempt.subject == subject).values(counted))
    return 0


def uncount_failure(connection: Connection, subject: str) -> None:
    """Decrease the count of a subject's failed attempts by one, but not below zero."""
    mine = update(login_attempts).where(attempt.subject == subject, attempt.failures > 0)
    connection.execute(mine.values(failures=attempt.failures - 1))


def forget_attempts(connection: Connection, subject: str) -> None:
    """Delete the counted attempts of a subject."""
    connection.execute(delete(login_attempts).where(attempt.subject == subject))


def forget_all_attempts(connection: Connection, beginning: str) -> None:
    """Delete the attempts of every subject whose text begins with ``beginning``."""
    connection.execute(delete(login_attempts).where(attempt.subject.startswith(beginning, autoescape=True)))


KNOWN_SINCE = func.now() - text(f"interval '{KNOWN_FOR_DAYS} days'")


def is_known_login(connection: Connection, subject: str) -> bool:
    """Return whether a user has logged in from an address within the last KNOWN_FOR_DAYS days.

    ``subject`` is the text that identifies the pair of user and address.
    """
    mine = known_logins.c.subject == subject, known_logins.c.last_login > KNOWN_SINCE
    return connection.execute(select(1).where(*mine)).scalar() is not None


def remember_login(connection: Connection, subject: str) -> None:
    """Record that a user logged in from an address now, and delete records that are older than KNOWN_FOR_DAYS."""
    connection.execute(delete(known_logins).where(known_logins.c.last_login <= KNOWN_SINCE))
    made = insert(known_logins).values(subject=subject, last_login=func.now())
    renewed = {"last_login": made.excluded.last_login}
    connection.execute(made.on_conflict_do_update(index_elements=[known_logins.c.subject], set_=renewed))
