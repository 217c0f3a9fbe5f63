"""Rows that operators manage, such as zones, hosts and offerings: insert, lock, update, remove, many at once.

Deleting an entity sets the column ``removed`` of its row; its uuid can still be resolved. A transaction that adds
an object to a parent locks the parent's row shared, and a transaction that deletes the parent locks it exclusively.
Therefore a parent cannot be deleted while a child is being added.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeAlias
from uuid import uuid4

import orjson
from psycopg.errors import UniqueViolation
from sqlalchemy import Column, ColumnElement, Connection, Row, Table, func, select, text, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import IntegrityError

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.database.copying import columns_from, copy_rows, reserve_ids
from bulkdeploy.store.database.engine import UNIQUE_VIOLATION
from bulkdeploy.store.rows.entities import SOURCES
from bulkdeploy.store.rows.filters import id_in

Values = Mapping[str, Any]
Fields: TypeAlias = Mapping[str, ColumnElement[Any]]
"""What holds the values of parameters: the column of each, or how it is made of columns."""

UUID_OF_ITS_OWN = "uuid"
"""Beside the values of parameters: the id that a thing has in another cloud, and is to have here."""

Contents = Mapping[str, Column[Any]]
"""What may hang on a row: the column that names it, by what the things are called."""


class NameTaken(Exception):
    """Raised when a live row of the same kind already has the name. The transaction must be rolled back."""


def insert_rows(connection: Connection, entity: Entity, rows: Sequence[Values]) -> list[EntityRef]:
    """Insert rows, and return the references of the entities in the same order.

    Raises:
        NameTaken: a live row of the same kind already has one of the names.
    """
    source = SOURCES[entity]
    ids = reserve_ids(connection, source.table, len(rows))
    documents = [column.name for column in source.table.c if isinstance(column.type, JSONB)]
    complete = [
        {"uuid": row.get("uuid") or uuid4(), **row, "id": number} for row, number in zip(rows, ids, strict=True)
    ]
    for row in complete if documents else ():
        row.update({name: orjson.dumps(row[name]).decode() for name in documents if name in row})
    try:
        for alike in _groups_of_equal_columns(complete):
            copy_rows(connection, source.table, len(alike), columns_from([complete[at] for at in alike]))
    except UniqueViolation as error:
        raise NameTaken from error
    return [EntityRef(entity, row["id"], row["uuid"], str(row.get(source.name))) for row in complete]


def insert_row(connection: Connection, entity: Entity, values: Values) -> EntityRef:
    """Insert one row, and return the reference of the entity.

    Raises:
        NameTaken: a live row of the same kind already has the name.
    """
    (made,) = insert_rows(connection, entity, [values])
    return made


def lock_live(
    connection: Connection,
    table: Table,
    ids: Iterable[int],
    *conditions: ColumnElement[bool],
    order: ColumnElement[Any] | None = None,
    shared: bool = False,
    all_columns: bool = False,
) -> dict[int, Row[Any]]:
    """Lock live rows of a table until the transaction ends, and return them by internal id. Other ids are omitted.

    The rows are locked in ascending order of their ids, or in another ``order``. Other transactions may still
    insert rows that refer to them by a foreign key, unless ``all_columns`` is set. Several transactions may have a
    ``shared`` lock at the same time.
    """
    query = select(table).where(id_in(table.c.id, ids), *conditions)
    if "removed" in table.c:
        query = query.where(table.c.removed.is_(None))
    query = query.order_by(table.c.id if order is None else order)
    rows = connection.execute(query.with_for_update(read=shared, key_share=not (shared or all_columns)))
    return {row.id: row for row in rows}


def lock_rows(connection: Connection, refs: Sequence[EntityRef], *, shared: bool = False) -> dict[int, Values]:
    """Lock the live rows of entities of one kind until the transaction ends, and return them by internal id.

    An exclusive lock is for changing the rows; a ``shared`` lock is for adding objects that refer to them.
    """
    if not refs:
        return {}
    rows = lock_live(connection, SOURCES[refs[0].entity].table, {ref.id for ref in refs}, shared=shared)
    return {number: row._asdict() for number, row in rows.items()}


def lock_row(connection: Connection, ref: EntityRef, *, shared: bool = False) -> Values | None:
    """Lock and return the row of one entity as ``lock_rows`` does, or return None if it was deleted."""
    return lock_rows(connection, [ref], shared=shared).get(ref.id)


def change_rows(connection: Connection, changes: Iterable[tuple[EntityRef, Values]]) -> None:
    """Update columns of entities of one kind. ``changes`` may be empty.

    If an entity occurs twice, its later values are written.

    Raises:
        NameTaken: a live row of the same kind already has one of the new names.
    """
    given = [(ref, values) for ref, values in changes if values]
    for alike in _groups_of_equal_columns([values for _, values in given]):
        ref, values = given[alike[0]]
        table = SOURCES[ref.entity].table.name
        # With a record set of the table's type, PostgreSQL converts each value to the type of its column.
        query = (
            f"UPDATE {table} SET {', '.join(f'{name} = new.{name}' for name in sorted(values))}"  # noqa: S608 - our own names
            f" FROM jsonb_populate_recordset(CAST(NULL AS {table}), CAST(:rows AS jsonb)) AS new"
            f" WHERE {table}.id = new.id"
        )
        rows = list({given[at][0].id: {"id": given[at][0].id, **given[at][1]} for at in alike}.values())
        try:
            connection.execute(
                text(query), {"rows": orjson.dumps(rows, _as_text, orjson.OPT_NON_STR_KEYS).decode()}
            )
        except IntegrityError as error:
            raise _taken(error) from error


def change_row(connection: Connection, ref: EntityRef, values: Values) -> None:
    """Update columns of one entity. Nothing happens if ``values`` is empty.

    Raises:
        NameTaken: a live row of the same kind already has the new name.
    """
    change_rows(connection, [(ref, values)])


def columns_of(fields: Fields, given: Values, never_empty: Container[str] = ()) -> dict[str, Any]:
    """Return the columns that the given parameters set.

    References become ids, tuples become lists, and empty texts become NULL. For the columns in ``never_empty``, an
    empty text counts as not given.
    """
    return own_uuid(given) | {
        column.name: _stored_value(given[name], nullable=bool(column.nullable))
        for name, column in fields.items()
        if name in given and isinstance(column, Column) and not (given[name] == "" and name in never_empty)
    }


def own_uuid(given: Values) -> dict[str, Any]:
    """Return the column ``uuid`` for an imported object, which already has a uuid in another cloud.

    Returns an empty dictionary for objects of API calls, which never provide a uuid.
    """
    return {UUID_OF_ITS_OWN: given[UUID_OF_ITS_OWN]} if UUID_OF_ITS_OWN in given else {}


def reader(entity: Entity, fields: Fields | None = None) -> Callable[[Connection], list[dict[str, Any]]]:
    """Return a function that reads all live rows of a kind, ordered by id.

    The columns are ``_id``, ``_uuid`` and ``fields``. Without ``fields``, the name is returned.
    """
    source = SOURCES[entity]
    columns = source.table.c
    named = [column.label(name) for name, column in (fields or {"name": columns[source.name]}).items()]
    query = select(columns.id.label("_id"), columns.uuid.label("_uuid"), *named).order_by(columns.id)
    if "removed" in columns:
        query = query.where(columns.removed.is_(None))
    if source.rows is not None:
        query = query.where(source.rows)
    return lambda connection: [dict(row) for row in connection.execute(query).mappings()]


def remove_rows(connection: Connection, refs: Sequence[EntityRef]) -> None:
    """Mark rows of one kind as removed. Their ids can still be resolved, but lists omit them."""
    if refs:
        table = SOURCES[refs[0].entity].table
        marked = update(table).where(id_in(table.c.id, {ref.id for ref in refs})).values(removed=func.now())
        connection.execute(marked)


def parents_in_use(connection: Connection, column: Column[Any], parent_ids: Collection[int]) -> set[int]:
    """Return the ids out of ``parent_ids`` to which live rows refer by this column."""
    query = select(column).where(id_in(column, parent_ids)).distinct()
    if "removed" in column.table.c:
        query = query.where(column.table.c.removed.is_(None))
    return set(connection.execute(query).scalars())


def what_hangs_on(connection: Connection, children: Contents, parent_ids: Collection[int]) -> dict[int, list[str]]:
    """Return the names of the kinds of live objects that each parent still has, by parent id.

    Parents without objects are omitted.
    """
    found: dict[int, list[str]] = {}
    for noun, column in children.items():
        for parent_id in parents_in_use(connection, column, parent_ids):
            found.setdefault(parent_id, []).append(noun)
    return found


def _groups_of_equal_columns(rows: Sequence[Values]) -> list[list[int]]:
    """Return the positions of the rows in groups that set the same columns."""
    columns = [tuple(sorted(row)) for row in rows]
    order = sorted(range(len(rows)), key=columns.__getitem__)
    return [list(group) for _, group in groupby(order, key=columns.__getitem__)]


def _stored_value(value: Any, *, nullable: bool) -> Any:
    if isinstance(value, EntityRef):
        return value.id
    if isinstance(value, tuple):
        return [_stored_value(one, nullable=False) for one in value]
    return None if value == "" and nullable else value


def _taken(error: IntegrityError) -> Exception:
    """Return NameTaken for a violated unique name, or else the error itself."""
    return NameTaken() if getattr(error.orig, "sqlstate", None) == UNIQUE_VIOLATION else error


def _as_text(value: object) -> str:
    """Convert a value that JSON cannot represent to a text that PostgreSQL can read."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no column holds a {type(value).__name__}")
