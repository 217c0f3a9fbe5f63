"""Rows that become due at certain times: finding them, and locking one while it is processed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, func, select

from bulkdeploy.store.rows.filters import Condition


def read_clock(connection: Connection) -> datetime:
    """Return the current time of the database's clock."""
    now: datetime = connection.execute(select(func.now())).scalar_one()
    return now


def due_rows(
    connection: Connection,
    columns: Sequence[ColumnElement[Any]],
    due_at: ColumnElement[datetime],
    live: Condition,
    most: int,
) -> list[tuple[Any, ...]]:
    """Return these columns of at most ``most`` live rows that are due, the earliest first."""
    query = select(*columns).where(live, due_at <= func.now()).order_by(due_at, *columns).limit(most)
    return [tuple(row) for row in connection.execute(query)]


def lock_due(
    connection: Connection, table: Table, row_id: int, due_at: ColumnElement[datetime], live: Condition
) -> Row[Any] | None:
    """Lock a row and return it with the database's time as ``now``, or None if it is not due any more."""
    query = select(table, func.now().label("now")).where(table.c.id == row_id, live, due_at <= func.now())
    return connection.execute(query.with_for_update()).first()
