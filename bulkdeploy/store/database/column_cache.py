"""A cache for numbers of large tables, which each process updates with the changes since its last read.

A plan needs a few numbers of every host of its zone, and nearly all of them are what they were at the last plan.
PostgreSQL knows which are not: every row version carries the transaction that wrote it (its system column
``xmin``), and a snapshot knows the oldest transaction that was still running (``pg_snapshot_xmin``). Whatever a
snapshot did not see was written by that transaction or a later one. So the rows whose ``xmin`` is not older
than the ``pg_snapshot_xmin`` of the last reading are all that can differ from it; asking for these costs a look
at every row version, but sends and converts only those.

Why that is so in the cases that one would doubt:
- A transaction that runs for hours holds ``pg_snapshot_xmin`` back: more rows are read again, none is missed.
- A subtransaction's number is greater than that of its transaction, which is not below ``pg_snapshot_xmin`` while
  it runs, prepared transactions included. Aborted ones leave no visible version.
- ``xmin`` has 32 bits and its age compares over two billion transactions, for frozen rows too; a row older than
  that looks new and is read in vain. With a reading half as old nothing is compared, the whole is read.
- What the running transaction itself wrote it sees, but it may be rolled back: readings with such rows are answered
  and not kept. Its rows, and those of its subtransactions, carry its number or a later one. Having a number alone
  does no harm: locking a row takes one. Rows that it removed count as well, so they are read, too.
- A second reading's snapshot is later than the kept one's, as READ COMMITTED takes one per statement.
- Tables truncated or rewritten, databases restored and other servers (a promoted replica) are recognised by their
  identity, the server's life (``store.database.server_life``) included.
- Rows deleted leave no trace: ours are marked as removed. A claim on what is not there finds out, and a transaction
  that loses a race against reality forgets everything (``store.database.engine``).

Room is checked where it is claimed, so nothing here can overcommit a host. ADR 16 has what else was thought of.
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
    """Columns worth keeping.

    Attributes:
        name: the table.
        columns: names to SQL of NOT NULL bigints; the first is the key, a positive id that never changes.
        gone: SQL that is true of rows which are not part of the answer (any more).
        scope: SQL with ``%(scope)s``, an id, that no row ever leaves or enters.
    """

    name: str
    columns: Mapping[str, str]
    gone: str = "false"
    scope: str = "%(scope)s IS NOT NULL"

    @property
    def key(self) -> str:
        """The name of the first column, which identifies a row."""
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
        """Return the table's columns as the connection sees them now, sorted by key. Not to be written into."""
        (found,) = self.read_all(connection, [(table, scope)])
        return found

    def read_all(
        self, connection: Connection, wanted: Sequence[tuple[CachedTable, int]]
    ) -> list[Mapping[str, Ints]]:
        """Read several tables as ``read`` does, all in one statement."""
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
    # A comparison with a subquery is one with a constant: the age of what is kept is taken once, not per row.
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
