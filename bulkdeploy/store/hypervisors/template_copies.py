"""The copies of templates in pools, and the attempts to create them.

An attempt that has reported no progress for a long time is treated as failed.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

SILENCE = timedelta(seconds=60)

_FIND = text(
    "SELECT attempt FROM template_copies WHERE template_uuid = :template AND pool_uuid = :pool AND ready"
    " AND checksum = :checksum"
)


def find(connection: Connection, template_uuid: UUID, pool_uuid: UUID, checksum: str) -> int | None:
    """Return the attempt that created the copy, or None if the pool has no copy of the image with this checksum."""
    given = {"template": template_uuid, "pool": pool_uuid, "checksum": checksum}
    return connection.execute(_FIND, given).scalar()


_BEGIN = text(
    "INSERT INTO template_copies AS c (template_uuid, pool_uuid, checksum) VALUES (:template, :pool, :checksum)"
    " ON CONFLICT (template_uuid, pool_uuid) DO UPDATE SET attempt = c.attempt + 1, percent = 0, renewed = now(),"
    "   first_attempt = CASE WHEN c.ready THEN c.attempt + 1 ELSE c.first_attempt END,"
    "   ready = false, checksum = :checksum"
    " WHERE CASE WHEN c.ready THEN c.checksum <> :checksum"
    "   ELSE c.renewed < now() - CAST(:silence AS interval) END RETURNING attempt, first_attempt"
)


def begin(connection: Connection, template_uuid: UUID, pool_uuid: UUID, checksum: str) -> Row[Any] | None:
    """Begin a copy of the image with this checksum in a pool.

    Returns ``attempt``, the number of the caller's attempt, and ``first_attempt``, the first of the failed attempts
    before it. Returns None if the copy exists or if another caller is creating it. The file of a copy with another
    checksum is kept, because volumes may be based on it.
    """
    given = {"template": template_uuid, "pool": pool_uuid, "silence": SILENCE, "checksum": checksum}
    return connection.execute(_BEGIN, given).first()


_STATE = text(
    "SELECT attempt, ready, percent, checksum FROM template_copies"
    " WHERE template_uuid = :template AND pool_uuid = :pool"
)


def state(connection: Connection, template_uuid: UUID, pool_uuid: UUID) -> Row[Any]:
    """Return attempt, ready, percent and checksum of a copy. The copy must have been begun."""
    return connection.execute(_STATE, {"template": template_uuid, "pool": pool_uuid}).one()


_REPORT = text(
    "UPDATE template_copies SET percent = :percent, ready = :ready,"
    " renewed = CASE WHEN :failed THEN '-infinity' ELSE now() END"
    " WHERE template_uuid = :template AND pool_uuid = :pool AND attempt = :attempt AND NOT ready"
)


def report(
    connection: Connection,
    template_uuid: UUID,
    pool_uuid: UUID,
    attempt: int,
    *,
    percent: int,
    ready: bool = False,
    failed: bool = False,
) -> bool:
    """Write the progress of an attempt. After ``failed``, another attempt may begin immediately.

    Returns False, and writes nothing, if another attempt has replaced this one.
    """
    given = {"template": template_uuid, "pool": pool_uuid, "attempt": attempt, "percent": percent}
    return connection.execute(_REPORT, {**given, "ready": ready, "failed": failed}).rowcount == 1
