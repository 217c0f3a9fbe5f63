"""Writing many rows by COPY, and reading many numbers as numpy columns.

Rows of a batch share most of their values, so rows are written from columns: a constant is escaped once, and a
sequence has one value per row. This is several times cheaper than one statement parameter per value
(docs/explanation/performance.md has the measurement).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from sqlalchemy import Connection, Table
from sqlalchemy import Sequence as SqlSequence

from bulkdeploy.store.database.arrays import RECORD_SEPARATOR
from bulkdeploy.store.database.hidden_values import hide_values

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_TO_ESCAPE = re.compile(r"[\\\t\n\r]")
_ROWS_PER_CHUNK = 2000


class PerRow:
    """The values of a column that differ from row to row.

    ``plain`` means that no value contains a character that COPY escapes; such characters are escaped only if it is
    False.
    """

    def __init__(self, values: Sequence[object], *, plain: bool = True) -> None:
        self.values: Sequence[object] = values if plain or _is_plain(values) else [_text(value) for value in values]


def _is_plain(values: Sequence[object]) -> bool:
    """Return whether all values are texts without characters that must be escaped.

    One search in the joined texts is much faster than one search per text.
    """
    return all(type(value) is str for value in values) and _TO_ESCAPE.search("".join(map(str, values))) is None


def _text(value: object) -> str:
    """Return one value in COPY's text format."""
    if value is None:
        return "\\N"
    if value is True:
        return "t"
    if value is False:
        return "f"
    if isinstance(value, bytes):
        return f"\\\\x{value.hex()}"
    if isinstance(value, list):
        value = f"{{{','.join(map(_element, value))}}}"
    return str(value).translate(_ESCAPES)


def _element(value: object) -> str:
    """Return one element of an array, in quotes."""
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def columns_from(rows: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Convert rows that all have the same columns to the columns that ``copy_rows`` expects."""
    return {name: _column([row[name] for row in rows]) for name in rows[0]}


def _column(values: list[Any]) -> object:
    first = values[0]
    if values.count(first) == len(values):
        return first
    return PerRow(values, plain=all(type(value) is int for value in values))


def psycopg_connection(connection: Connection) -> psycopg.Connection[Any]:
    """Return the psycopg connection below, inside the same transaction."""
    raw = connection.connection.driver_connection
    if not isinstance(raw, psycopg.Connection):
        raise TypeError(f"not a psycopg connection: {raw!r}")
    return raw


def copy_rows(connection: Connection, table: Table, count: int, columns: Mapping[str, object]) -> None:
    """Insert ``count`` rows; each column is a constant or ``PerRow`` with ``count`` values.

    Columns that are not named get their database default.
    """
    copy_row_sets(connection, table, [(count, columns)])


def copy_row_sets(connection: Connection, table: Table, sets: Iterable[tuple[int, Mapping[str, object]]]) -> None:
    """Insert several sets of rows as ``copy_rows`` does, with one COPY for all sets that have the same columns."""
    alike: dict[tuple[str, ...], list[tuple[int, Mapping[str, object]]]] = {}
    for count, columns in sets:
        if count:
            alike.setdefault(tuple(columns), []).append((count, columns))
    for names, same in alike.items():
        quoted = ", ".join(f'"{name}"' for name in names)
        try:
            with (
                psycopg_connection(connection).cursor() as cursor,
                cursor.copy(f"COPY {table.name} ({quoted}) FROM STDIN".encode()) as copy,
            ):
                for chunk in _chunks(line for count, columns in same for line in _lines(count, columns)):
                    copy.write(chunk)
        except psycopg.Error as error:
            hide_values(error)
            raise


def _lines(count: int, columns: Mapping[str, object]) -> Iterator[str]:
    """Return rows in COPY's text format."""
    cells: list[str] = []
    varying: list[Sequence[object]] = []
    for value in columns.values():
        if isinstance(value, PerRow):
            cells.append("%s")
            varying.append(value.values)
        else:
            cells.append(_text(value).replace("%", "%%"))
    line = "\t".join(cells) + "\n"
    rows: Iterable[tuple[object, ...]] = zip(*varying, strict=True) if varying else ((),) * count
    return map(line.__mod__, rows)


def _chunks(lines: Iterable[str]) -> Iterator[str]:
    waiting = iter(lines)
    while chunk := "".join(islice(waiting, _ROWS_PER_CHUNK)):
        yield chunk


def read_columns(
    connection: Connection,
    query: str,
    parameters: Mapping[str, object],
    names: Sequence[str],
    *,
    texts: Sequence[str] = (),
) -> tuple[dict[str, NDArray[np.int64]], dict[str, list[str]]]:
    """Run a query and return its columns: a numpy array for each of ``names``, and a list for each of ``texts``.

    The columns of the query must be NOT NULL, first the bigint columns and then the text columns. The values keep
    the order of the query. Each column is transferred as one value, so that no object and no message is needed per
    row.
    """
    columns = [f"array_agg({name})" for name in names]
    columns += [f"string_agg({name}, '{RECORD_SEPARATOR}')" for name in texts]
    with psycopg_connection(connection).cursor(binary=True) as cursor:
        statement = f"SELECT {', '.join(columns)} FROM ({query}) AS q({', '.join((*names, *texts))})"  # noqa: S608 - our own names
        cursor.execute(statement.encode(), parameters)
        result = cursor.pgresult
        if result is None:
            raise TypeError("the statement returns no rows")
        numbers = {name: array_of_numbers(result.get_value(0, at)) for at, name in enumerate(names)}
        joined = [result.get_value(0, len(names) + at) for at in range(len(texts))]
    return numbers, {
        name: [] if text is None else text.decode().split(RECORD_SEPARATOR)
        for name, text in zip(texts, joined, strict=True)
    }


_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])
_ARRAY_HEADER_BYTES = 20


def array_of_numbers(data: bytes | None) -> NDArray[np.int64]:
    """Return a one-dimensional bigint[] from PostgreSQL's binary format; NULL (of no rows) counts as empty."""
    if data is None or len(data) < _ARRAY_HEADER_BYTES:
        return np.zeros(0, dtype=np.int64)
    return np.frombuffer(data, dtype=_ELEMENT, offset=_ARRAY_HEADER_BYTES)["value"].astype(np.int64)


def reserve_ids(connection: Connection, table: Table, count: int) -> list[int]:
    """Return ``count`` new ids of a table's identity column, in ascending order."""
    (ids,) = reserve_numbers(connection, [(table, count)])
    return ids


def reserve_numbers(connection: Connection, wanted: Sequence[tuple[Table | SqlSequence, int]]) -> list[list[int]]:
    """Return new ascending numbers, in one statement: one list for each pair of source and count.

    A source is a sequence, or a table, whose next ids are reserved.
    """
    # With the subquery, the sequence is looked up once and not for each number.
    arrays = ", ".join(
        f"ARRAY(SELECT nextval((SELECT CAST({_sequence(source)} AS regclass)))"  # noqa: S608 - our own names
        " FROM generate_series(1, %s))"
        for source, _ in wanted
    )
    with psycopg_connection(connection).cursor(binary=True) as cursor:
        cursor.execute(f"SELECT {arrays}".encode(), [count for _, count in wanted])
        result = cursor.pgresult
        if result is None:
            raise TypeError("the statement returns no rows")
        return [array_of_numbers(result.get_value(0, at)).tolist() for at in range(len(wanted))]


def _sequence(source: Table | SqlSequence) -> str:
    return (
        f"'{source.name}'" if isinstance(source, SqlSequence) else f"pg_get_serial_sequence('{source.name}', 'id')"
    )
