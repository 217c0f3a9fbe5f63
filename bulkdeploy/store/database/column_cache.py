"""A cache of numeric columns of large tables. Each process updates its cache with the changes since its last read.

A plan needs a few numbers of every host of its zone, and nearly all of them are the same as at the last plan.
PostgreSQL can tell which rows changed: every row version contains the id of the transaction that wrote it (the
system column ``xmin``), and a snapshot contains the oldest transaction that was still running
(``pg_snapshot_xmin``). A row that a snapshot did not see was written by that transaction or a later one. Therefore
only rows whose ``xmin`` is not older than the ``pg_snapshot_xmin`` of the last read can differ from the cache. The
query for them checks every row version, but returns and converts only these rows.

The following cases are correct, too:

- A transaction that runs for hours holds ``pg_snapshot_xmin`` back: more rows are read again, none is missed.
- The id of a subtransaction is greater than the id of its transaction, which is not below ``pg_snapshot_xmin``
while it runs, prepared transactions included. Aborted subtransactions leave no visible row version.
- ``xmin`` has 32 bits, and its age is compared over two billion transactions, also for frozen rows. An older row
looks new and is read without need. If the cached read is half as old as this, the whole table is read.
- A running transaction sees its own changes, but these may be rolled back. A read that contains such rows is
returned but not cached. These rows, and rows of subtransactions, contain the transaction's id or a later id. A
transaction id alone does no harm: locking a row assigns one. Rows that the transaction removed count as well, so
they are also read.
- The snapshot of a second read is later than that of the cached read, because READ COMMITTED uses one per
statement.
- Truncated or rewritten tables, restored databases and other servers (a promoted replica) are recognised by their
identity, which includes the server's start (``store.database.server_life``).
- Deleted rows are not noticed, but our rows are marked as removed instead. A claim on a missing row fails, and a
transaction that loses such a race clears the cache (``store.database.engine``).

Capacity is checked where it is claimed, so nothing here can overcommit a host. ADR 16 describes the alternatives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from threading import Lock

import numpy as np
from sqlalchemy import Connection, Engine

from bulkdeploy.placement.model import Ints
from bulkdeploy.store.database.copying import array_of_numbers, psycopg_connection
from bulkdeploy.store.database.server_life import LIFE_BEGAN

OPTION = "bulkdeploy_column_cache"

XIDS = 1 << 32
GONE = "gone"
MOST_TRANSACTIONS = 1 << 30
"""How many transactions after a reading what changed can still be told by age."""


@dataclass(frozen=True, slots=True)
class CachedTable:
    """The columns of a table that a ``ColumnCache`` stores.

    Attributes:
        name: the table's name.
        columns: the SQL expression of each column by name: bigints that are NOT NULL. The first is the key, a
            positive id that never changes.
        gone: the SQL condition for rows that are not part of the result (any more).
        scope: an SQL condition with the id ``%(scope)s``, which divides the table into parts. A row never changes
            its part.
    """

    name: str
    columns: Mapping[str, str]
    gone: str = "false"
    scope: str = "%(scope)s IS NOT NULL"

    @property
    def key(self) -> str:
        """The name of the key column, which identifies a row."""
        return next(iter(self.columns))


@dataclass(frozen=True, slots=True)
class _Reading:
    """The columns of one snapshot, sorted by key. ``since`` is the oldest transaction that it may not include."""

    source: str
    since: int
    columns: Mapping[str, Ints]


class ColumnCache:
    """The cached columns of one process. Threads may share it, because readings are replaced and never changed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readings: dict[tuple[str, int], _Reading] = {}

    def read(self, connection: Connection, table: CachedTable, scope: int) -> Mapping[str, Ints]:
        """Return the current columns of one scope of a table, sorted by key, and update the cache.

        The columns include all changes that the connection's transaction sees. The caller must not modify the
        arrays.
        """
        (found,) = self.read_all(connection, [(table, scope)])
        return found

    def read_all(
        self, connection: Connection, wanted: Sequence[tuple[CachedTable, int]]
    ) -> list[Mapping[str, Ints]]:
        """Return the current columns of several pairs of table and scope, with one statement for all.

        Each result is the same as that of ``read``.
        """
        with self._lock:
            requested = [_Wanted(table, scope, self._readings.get((table.name, scope))) for table, scope in wanted]
        readings = []
        for each, found in zip(requested, _read(connection, requested), strict=True):
            if found.may_be_kept:
                with self._lock:
                    self._readings[(each.table.name, each.scope)] = found.reading
            readings.append(found.reading.columns)
        return readings

    def forget(self) -> None:
        """Clear the cache, so that the next read fetches all rows."""
        with self._lock:
            self._readings.clear()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A requested table and its cached reading, if there is one."""

    table: CachedTable
    scope: int
    kept: _Reading | None


@dataclass(frozen=True, slots=True)
class _Found:
    reading: _Reading
    may_be_kept: bool


@dataclass(frozen=True, slots=True)
class _Changes:
    """The rows that changed since the cached reading, in any order, and the snapshot in which they were read.

    If nothing is cached, these are all rows of the table.
    """

    columns: dict[str, Ints]
    since: int
    is_clean: bool
    source: str

    def can_follow(self, kept: _Reading | None) -> bool:
        """Return whether the cached reading together with these changes is the complete table."""
        return kept is None or (self.source == kept.source and self.since - kept.since <= MOST_TRANSACTIONS)


_IDENTITY = """
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text, coalesce(bool_and(NOT own), true),
           concat_ws(' ', extract(epoch FROM {life}), pg_relation_filenode('{table}'),
                     (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
_OWN = "coalesce(age(xmin) <= (SELECT age(pg_current_xact_id_if_assigned()::xid)), false)"
"""True of what this transaction wrote, and of what others did that began after it."""


def _read(connection: Connection, wanted: Sequence[_Wanted]) -> list[_Found]:
    changes = _request(connection, wanted)
    if not all(found.can_follow(each.kept) for each, found in zip(wanted, changes, strict=True)):
        wanted = [replace(each, kept=None) for each in wanted]
        changes = _request(connection, wanted)
    return [_followed(each, found) for each, found in zip(wanted, changes, strict=True)]


def _followed(requested: _Wanted, changes: _Changes) -> _Found:
    gone = changes.columns[GONE]
    changed = {name: column for name, column in changes.columns.items() if name != GONE}
    before = (
        {name: column[:0] for name, column in changed.items()} if requested.kept is None else requested.kept.columns
    )
    merged = _merged(requested.table.key, before, changed, gone)
    return _Found(_Reading(changes.source, changes.since, merged), changes.is_clean)


def _request(connection: Connection, wanted: Sequence[_Wanted]) -> list[_Changes]:
    """Return the changes of each table, in one statement."""
    readings: list[str] = []
    parameters: dict[str, object] = {}
    for number, each in enumerate(wanted):
        readings.append(f"({_statement(each, number)}) AS reading_{number}")
        parameters[f"scope_{number}"] = each.scope
        parameters[f"since_{number}"] = None if each.kept is None else str(each.kept.since % XIDS)
    found = []
    with psycopg_connection(connection).cursor(binary=True) as cursor:
        cursor.execute(f"SELECT * FROM {', '.join(readings)}".encode(), parameters)  # noqa: S608 - our own names
        result = cursor.pgresult
        if result is None:
            raise TypeError("the statement returns no rows")
        values = (result.get_value(0, at) for at in range(result.nfields))
        for each in wanted:
            since, clean, source = (value or b"" for value in islice(values, 3))
            columns = {name: array_of_numbers(next(values)) for name in (*each.table.columns, GONE)}
            found.append(_Changes(columns, int(since), clean == b"\x01", source.decode()))
    return found


def _statement(requested: _Wanted, number: int) -> str:
    """Return the statement with one row: the snapshot's number, and the columns of the rows that changed."""
    table = requested.table
    names = [*table.columns, GONE]
    values = ", ".join([*table.columns.values(), f"({table.gone})::int::bigint", _OWN])
    # The subquery is evaluated once, so the age of the cached rows is not computed per row.
    changed = "true" if requested.kept is None else f"age(xmin) <= (SELECT age(%(since_{number})s::xid))"
    arrays = ", ".join(f"array_agg({name})" for name in names)
    scope = table.scope.replace("%(scope)s", f"%(scope_{number})s::bigint")
    return (
        f"{_IDENTITY.format(table=table.name, life=LIFE_BEGAN)}, {arrays} FROM (SELECT {values} FROM {table.name}"  # noqa: S608 - our own names
        f" WHERE {scope} AND {changed}) AS q({', '.join(names)}, own)"
    )


def _merged(key: str, kept: Mapping[str, Ints], changed: Mapping[str, Ints], gone: Ints) -> Mapping[str, Ints]:
    """Return the cached columns with changed rows replaced, new rows inserted and deleted rows removed."""
    if len(changed[key]) == 0:
        return kept
    at = np.searchsorted(kept[key], changed[key])
    known = np.zeros(len(at), dtype=bool)
    inside = at < len(kept[key])
    known[inside] = kept[key][at[inside]] == changed[key][inside]
    if known.all() and not gone.any():
        replaced = {name: column.copy() for name, column in kept.items()}
        for name, column in replaced.items():
            column[at] = changed[name]
        return replaced
    stays = np.ones(len(kept[key]), dtype=bool)
    stays[at[known]] = False
    joined = {name: np.concatenate([kept[name][stays], changed[name][gone == 0]]) for name in kept}
    order = np.argsort(joined[key], kind="stable")
    return {name: column[order] for name, column in joined.items()}


def column_cache(of: Connection | Engine) -> ColumnCache:
    """Return the column cache of the engine, or a new empty cache if the engine has none."""
    found = of.get_execution_options().get(OPTION)
    return found if isinstance(found, ColumnCache) else ColumnCache()
