"""Rows that operators make, change and delete one by one: zones, pods, hosts, offerings, ...

Deleting marks a row ``removed``; it still resolves by its uuid. Whoever hangs something on a row holds it
shared, whoever deletes it holds it alone: what has just become a parent is not deleted under its child.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, exists, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.database.engine import UNIQUE_VIOLATION
from bulkdeploy.store.entities import SOURCES

Values = Mapping[str, Any]
Contents = Mapping[str, Column[Any]]
"""What may hang on a row: the column that names it, by what the things are called."""


class NameTaken(Exception):
    """A live row of that kind has the name already, in the same place; the transaction must be given up."""


def insert_row(connection: Connection, entity: Entity, values: Values) -> EntityRef:
    """Write a row.

    Raises:
        NameTaken: see there.
    """
    source = SOURCES[entity]
    table = source.table
    try:
        row = connection.execute(insert(table).values(**values).returning(table.c.id, table.c.uuid)).one()
    except IntegrityError as error:
        raise _taken(error) from error
    return EntityRef(entity, row.id, row.uuid, str(values.get(source.name)))


def lock_row(connection: Connection, ref: EntityRef, *, shared: bool = False) -> Values | None:
    """The row, held until the end of the transaction: alone to change it, or shared to hang something on it.

    None where it was deleted.
    """
    table = SOURCES[ref.entity].table
    # Not stronger than needed: rows that refer to this one by a foreign key may be written meanwhile.
    query = select(table).where(table.c.id == ref.id).with_for_update(read=shared, key_share=not shared)
    if "removed" in table.c:
        query = query.where(table.c.removed.is_(None))
    row = connection.execute(query).mappings().first()
    return None if row is None else dict(row)


def change_row(connection: Connection, ref: EntityRef, values: Values) -> None:
    """Set these columns; none given is fine.

    Raises:
        NameTaken: see there.
    """
    if not values:
        return
    table = SOURCES[ref.entity].table
    try:
        connection.execute(update(table).where(table.c.id == ref.id).values(**values))
    except IntegrityError as error:
        raise _taken(error) from error


def remove_row(connection: Connection, ref: EntityRef) -> None:
    """Mark a row as deleted."""
    table = SOURCES[ref.entity].table
    connection.execute(update(table).where(table.c.id == ref.id).values(removed=func.now()))


def has_live(connection: Connection, column: Column[Any], parent_id: int) -> bool:
    """Whether a live row hangs on a parent by this column."""
    query = select(column).where(column == parent_id)
    if "removed" in column.table.c:
        query = query.where(column.table.c.removed.is_(None))
    return bool(connection.execute(select(exists(query))).scalar_one())


def what_hangs_on(connection: Connection, children: Contents, parent_id: int) -> list[str]:
    """Which of these kinds of things, by their names, a parent still has."""
    return [noun for noun, column in children.items() if has_live(connection, column, parent_id)]


def _taken(error: IntegrityError) -> Exception:
    """What a refused write means: a name that is taken, or the error itself."""
    return NameTaken() if getattr(error.orig, "sqlstate", None) == UNIQUE_VIOLATION else error
