"""Rows of objects that accounts own, of any kind: insert once per name, lock, rename, mark as removed."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Text, any_, bindparam, select, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import IntegrityError

from bulkdeploy.domain.accounts.accounts import AccountType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.rows.entities import SOURCES
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.rows.live_rows import Fields, lock_live, reader
from bulkdeploy.store.tables.accounts import accounts, projects


def owned_reader(entity: Entity, fields: Fields) -> Callable[[Connection], list[dict[str, Any]]]:
    """Return a function that reads the live objects of one kind in the format of zone files, with their accounts.

    Objects that projects own are omitted.
    """
    read_all = reader(entity, {**fields, "_owner": SOURCES[entity].table.c.account_id})

    def read(connection: Connection) -> list[dict[str, Any]]:
        rows = read_all(connection)
        query = select(accounts.c.id, accounts.c.name, accounts.c.domain_id).where(
            id_in(accounts.c.id, {row["_owner"] for row in rows} - {None}),
            accounts.c.account_type != AccountType.PROJECT.value,
        )
        owners = {row.id: row for row in connection.execute(query)}
        return [
            {
                **row,
                "account": owners[row["_owner"]].name,
                "domainid": owners[row["_owner"]].domain_id,
                "_within": (Entity.ACCOUNT, row["_owner"]),
            }
            for row in rows
            if row["_owner"] in owners
        ]

    return read


def read_of_projects(connection: Connection, entity: Entity) -> list[dict[str, Any]]:
    """Return the live objects of one kind that projects own: their id, uuid, name and the project's internal id."""
    table = SOURCES[entity].table
    query = (
        select(table.c.id.label("_id"), table.c.uuid.label("_uuid"), table.c.name, projects.c.id.label("projectid"))
        .join(projects, projects.c.account_id == table.c.account_id)
        .where(table.c.removed.is_(None), projects.c.removed.is_(None))
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def insert_entity(connection: Connection, entity: Entity, **values: Any) -> EntityRef | None:
    """Insert a new entity and return its reference.

    Returns None if a unique index contains such an entity already, possibly from a concurrent transaction.
    """
    table = SOURCES[entity].table
    made = insert(table).values(**values).on_conflict_do_nothing().returning(table.c.id, table.c.uuid)
    row = connection.execute(made).first()
    return None if row is None else EntityRef(entity, row.id, row.uuid, str(values[SOURCES[entity].name]))


def find_by_name(
    connection: Connection, entity: Entity, account_id: int, name: str, *, for_share: bool = False
) -> EntityRef | None:
    """Return the account's live object with exactly this name, or None if there is none.

    With ``for_share``, the object's row is locked, so that the object cannot be deleted until the transaction ends.
    """
    return find_by_names(connection, entity, [(account_id, name)], for_share=for_share).get((account_id, name))


def find_by_names(
    connection: Connection, entity: Entity, names: Collection[tuple[int, str]], *, for_share: bool = False
) -> dict[tuple[int, str], EntityRef]:
    """Return live objects by account id and exact name. Names that an account does not have are omitted.

    With ``for_share``, the rows are locked, so that the objects cannot be deleted until the transaction ends.
    """
    if not names:
        return {}
    table = SOURCES[entity].table
    query = select(table.c.id, table.c.uuid, table.c.account_id, table.c.name).where(
        id_in(table.c.account_id, {account_id for account_id, _ in names}),
        table.c.name == any_(bindparam("names", list({name for _, name in names}), ARRAY(Text))),
        table.c.removed.is_(None),
    )
    query = query.order_by(table.c.id)
    found: dict[tuple[int, str], EntityRef] = {}
    for row in connection.execute(query.with_for_update(read=True) if for_share else query):
        found.setdefault((row.account_id, row.name), EntityRef(entity, row.id, row.uuid, row.name))
    return found


def lock_owned_rows(connection: Connection, refs: Sequence[EntityRef]) -> dict[int, Row[Any]]:
    """Return the live rows of entities of one kind by internal id, locked until the end of the transaction."""
    if not refs:
        return {}
    return lock_live(connection, SOURCES[refs[0].entity].table, {ref.id for ref in refs}, all_columns=True)


def rename_entity(connection: Connection, ref: EntityRef, name: str) -> bool:
    """Rename an entity. Return False if its account has another entity with that name.

    The caller must have locked the entity's row.

    Raises:
        TransactionConflict: a concurrent transaction gave the same name to another entity.
    """
    table = SOURCES[ref.entity].table
    other = table.alias()
    taken = select(1).where(
        other.c.account_id == table.c.account_id, other.c.name == name, other.c.removed.is_(None)
    )
    changed = update(table).where(table.c.id == ref.id, ~taken.exists()).values(name=name)
    try:
        return connection.execute(changed).rowcount == 1
    except IntegrityError as error:
        raise TransactionConflict from error
