"""Which pools have copies of which templates, and who makes one. An attempt that is silent for long has died."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

SILENCE = timedelta(seconds=60)

_FIND = text("SELECT attempt FROM template_copies WHERE template_uuid = :template AND pool_uuid = :pool AND ready")


def find(connection: Connection, template_uuid: UUID, pool_uuid: UUID) -> int | None:
    """The attempt that made the copy; None: there is none."""
    return connection.execute(_FIND, {"template": template_uuid, "pool": pool_uuid}).scalar()


_BEGIN = text(
    "INSERT INTO template_copies AS c (template_uuid, pool_uuid) VALUES (:template, :pool)"
    " ON CONFLICT (template_uuid, pool_uuid) DO UPDATE SET attempt = c.attempt + 1, percent = 0, renewed = now()"
    " WHERE NOT c.ready AND c.renewed < now() - CAST(:silence AS interval) RETURNING attempt"
)


def begin(connection: Connection, template_uuid: UUID, pool_uuid: UUID) -> int | None:
    """The attempt that the caller is to make; None: there is a copy, or another caller makes one."""
    return connection.execute(_BEGIN, {"template": template_uuid, "pool": pool_uuid, "silence": SILENCE}).scalar()


_STATE = text(
    "SELECT attempt, ready, percent FROM template_copies WHERE template_uuid = :template AND pool_uuid = :pool"
)


def state(connection: Connection, template_uuid: UUID, pool_uuid: UUID) -> Row[Any]:
    """Attempt, ready and percent of a copy that was begun."""
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
    """How far the attempt is; failed: the next one may begin at once. False: another attempt has taken over."""
    given = {"template": template_uuid, "pool": pool_uuid, "attempt": attempt, "percent": percent}
    return connection.execute(_REPORT, {**given, "ready": ready, "failed": failed}).rowcount == 1
