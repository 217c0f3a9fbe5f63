"""The CloudStack installations whose events this service follows: which process follows each, and its progress."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text


def database_time(connection: Connection) -> datetime:
    """Return the current time of the database's clock."""
    moment: datetime = connection.execute(text("SELECT now()")).scalar_one()
    return moment


_LEAD = text(
    "INSERT INTO followed_clouds AS f (url, leader, leased_until)"
    " VALUES (:url, :follower, now() + make_interval(secs => :lease_s))"
    " ON CONFLICT (url) DO UPDATE SET leader = excluded.leader, leased_until = excluded.leased_until"
    " WHERE f.leader = excluded.leader OR f.leased_until IS NULL OR f.leased_until < now()"
    " RETURNING newest_event, seen, imported, now() AS now"
)


def take_lead(connection: Connection, url: str, follower: UUID, lease_s: float) -> Row[Any] | None:
    """Acquire or renew the lease to follow a CloudStack for ``lease_s`` seconds, and return the progress so far.

    Returns None if another process has the lease. The row's times ``newest_event``, ``seen`` and ``imported`` are
    None if there was no such event or action yet; ``now`` is the current time of the database's clock.
    """
    return connection.execute(_LEAD, {"url": url, "follower": follower, "lease_s": lease_s}).first()


_NOTE = text(
    "UPDATE followed_clouds SET newest_event = greatest(:newest_event, newest_event),"
    " seen = coalesce(:seen, seen), imported = coalesce(:imported, imported)"
    " WHERE url = :url AND leader = :follower"
)


def note_progress(
    connection: Connection,
    url: str,
    follower: UUID,
    *,
    newest_event: datetime | None = None,
    seen: datetime | None = None,
    imported: datetime | None = None,
) -> bool:
    """Record how far a CloudStack's events were followed. Return False if another process follows it by now.

    If False is returned, nothing was written. Otherwise no other process can begin to follow it until the
    transaction ends.
    """
    values = {"url": url, "follower": follower, "newest_event": newest_event, "seen": seen, "imported": imported}
    return connection.execute(_NOTE, values).rowcount > 0


_YIELD = text(
    "UPDATE followed_clouds SET leader = NULL, leased_until = NULL WHERE url = :url AND leader = :follower"
)


def yield_lead(connection: Connection, url: str, follower: UUID) -> None:
    """End the lease to follow a cloud, so that another process can follow it immediately."""
    connection.execute(_YIELD, {"url": url, "follower": follower})


_AGE = text(
    "SELECT CAST(extract(epoch FROM now() - min(seen)) AS float) FROM followed_clouds WHERE leader IS NOT NULL"
)


def picture_age_s(connection: Connection) -> float | None:
    """Return the age in seconds of the oldest data read from a followed CloudStack, or None if none is followed.

    A CloudStack still counts as followed if its following process died without ending its lease.
    """
    age: float | None = connection.execute(_AGE).scalar()
    return None if age is None else max(age, 0.0)
