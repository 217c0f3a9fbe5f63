"""Writing many described rows at once: what is missing is inserted, what differs is updated.

Rows go by COPY into a temporary table beside the target and are compared there, so that 25,000
hosts cost a handful of statements and a row that says the same is not touched.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Table,
    and_,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upserting

from bulkdeploy.domain.inventory_owners import Where
from bulkdeploy.store.database.copying import PerRow, copy_rows
from bulkdeploy.store.locks import Lock, take_lock

Row = Mapping[str, object]


class InventoryConflict(Exception):
    """What the file says at ``where`` cannot be made true in this database, by ``rule``."""

    def __init__(self, where: Where, rule: str) -> None:
        self.where, self.rule = where, rule
        super().__init__(rule)


class FixedColumn(Exception):
    """Row ``position`` differs from the database in a column that never changes."""

    def __init__(self, position: int, column: str) -> None:
        self.position, self.column = position, column
        super().__init__(column)


@dataclass(slots=True)
class Changes:
    """How many rows a load added and changed, by what they describe."""

    added: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)

    def count(self, noun: str, added: int, changed: int) -> None:
        """Count for one noun."""
        for counts, number in ((self.added, added), (self.changed, changed)):
            if number:
                counts[noun] = counts.get(noun, 0) + number


@dataclass(frozen=True, slots=True)
class Upsert:
    """How rows of one table find themselves again.

    Attributes:
        key: the columns that tell rows apart; among live rows only, the oldest if several are alike.
        folded: key columns in which capitals do not count.
        fixed: columns that must not differ from what is stored.
        once: columns that are written with a new row and never compared.
        kept: columns whose stored value stays where the new one is NULL.
    """

    table: Table
    key: tuple[str, ...]
    folded: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def write(self, connection: Connection, rows: Sequence[Row], changes: Changes, noun: str) -> list[int]:
        """Make the table say what ``rows`` say; their ids, in order. All rows have the same columns.

        Rows that change are locked in the order of their ids.

        Raises:
            FixedColumn: a stored row differs where it must not; nothing of this table is written.
        """
        if not rows:
            return []
        columns = tuple(rows[0])
        stage = _stage(connection, self.table, columns, rows)
        self._find(connection, stage)
        self._refuse_fixed(connection, stage)
        changed = self._update(connection, stage, columns)
        missing = stage.c.target_id.is_(None)
        added = connection.execute(select(func.count()).select_from(stage).where(missing)).scalar_one()
        wanted = select(*(stage.c[name] for name in columns)).where(missing).order_by(stage.c.ordinal)
        connection.execute(insert(self.table).from_select(columns, wanted))
        self._find(connection, stage)
        ids = connection.execute(select(stage.c.target_id).order_by(stage.c.ordinal)).scalars().all()
        stage.drop(connection)
        changes.count(noun, added, changed)
        return list(ids)

    def _find(self, connection: Connection, stage: Table) -> None:
        """Note the id of the stored row beside each staged row that has none noted."""
        table = self.table
        conditions = [_same(table.c[name], stage.c[name], folded=name in self.folded) for name in self.key]
        if "removed" in table.c:
            conditions.append(table.c.removed.is_(None))
        found = (
            select(stage.c.ordinal, func.min(table.c.id).label("id"))
            .select_from(stage.join(table, and_(*conditions)))
            .where(stage.c.target_id.is_(None))
            .group_by(stage.c.ordinal)
            .subquery()
        )
        connection.execute(update(stage).values(target_id=found.c.id).where(stage.c.ordinal == found.c.ordinal))

    def _refuse_fixed(self, connection: Connection, stage: Table) -> None:
        for name in self.fixed:
            position = connection.execute(
                select(func.min(stage.c.ordinal))
                .join(self.table, self.table.c.id == stage.c.target_id)
                .where(self.table.c[name].is_distinct_from(stage.c[name]))
            ).scalar_one()
            if position is not None:
                raise FixedColumn(position, name)

    def _update(self, connection: Connection, stage: Table, columns: tuple[str, ...]) -> int:
        table = self.table
        written = [name for name in columns if name not in (*self.key, *self.fixed, *self.once)]
        if not written:
            return 0
        wanted = {
            name: func.coalesce(stage.c[name], table.c[name]) if name in self.kept else stage.c[name]
            for name in written
        }
        differs = and_(
            table.c.id == stage.c.target_id,
            or_(*(table.c[name].is_distinct_from(value) for name, value in wanted.items())),
        )
        lock = select(table.c.id).join(stage, differs).order_by(table.c.id).with_for_update(of=table)
        changing = connection.execute(lock).all()
        if changing:
            connection.execute(update(table).values(wanted).where(differs))
        return len(changing)


def serialize_loads(connection: Connection) -> None:
    """Wait for, and hold until the end of the transaction, the right to write an inventory.

    Many names have no unique index (two offerings may be called alike), so two loads at once could
    each find the same thing missing.
    """
    take_lock(connection, Lock.INVENTORY)


def merge(connection: Connection, table: Table, rows: Sequence[Row], changes: Changes, noun: str) -> None:
    """The same for a table whose primary key is given with the rows; other columns are updated."""
    if not rows:
        return
    columns = tuple(rows[0])
    stage = _stage(connection, table, columns, rows)
    keys = [column.name for column in table.primary_key]
    statement = upserting(table).from_select(
        columns, select(*(stage.c[name] for name in columns)).order_by(*(stage.c[key] for key in keys))
    )
    written = [name for name in columns if name not in keys]
    if written:
        statement = statement.on_conflict_do_update(
            index_elements=keys,
            set_={name: statement.excluded[name] for name in written},
            where=or_(*(table.c[name].is_distinct_from(statement.excluded[name]) for name in written)),
        )
    else:
        statement = statement.on_conflict_do_nothing()
    fresh: Sequence[bool] = connection.execute(statement.returning(literal_column("xmax = 0"))).scalars().all()
    stage.drop(connection)
    changes.count(noun, sum(fresh), len(fresh) - sum(fresh))


def _stage(connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Row]) -> Table:
    """A temporary table with these columns of ``table``, filled with the rows in order."""
    stage = Table(
        "inventory_stage",
        MetaData(),
        Column("ordinal", Integer, primary_key=True, autoincrement=False),
        Column("target_id", BigInteger),
        *(Column(name, table.c[name].type) for name in columns),
        prefixes=["TEMPORARY"],
        postgresql_on_commit="DROP",
    )
    stage.create(connection)
    copied: dict[str, object] = {"ordinal": PerRow(range(len(rows)))}
    for name in columns:
        copied[name] = PerRow([_literal(row[name]) for row in rows], plain=False)
    copy_rows(connection, stage, len(rows), copied)
    return stage


def _same(stored: Column[object], staged: Column[object], *, folded: bool) -> ColumnElement[bool]:
    if folded:
        return func.lower(stored) == func.lower(staged)
    return stored.is_not_distinct_from(staged) if stored.nullable else stored == staged


def _literal(value: object) -> object:
    """A value as PostgreSQL reads it from text."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, (tuple, list)):
        quoted = (str(item).replace("\\", "\\\\").replace('"', '\\"') for item in value)
        return "{" + ",".join(f'"{item}"' for item in quoted) + "}"
    return value
