"""Pages of list queries: counting, ordering and cutting rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar, overload

from sqlalchemy import ColumnElement, Connection, Select, func, select

from bulkdeploy.declare.responses import Field

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]
Orders: TypeAlias = Mapping[str, ColumnElement[Any]]
"""What a list may be ordered by, by wire names."""

ROWS_AT_ONCE = 2000
"""Rows of a list that are in memory at the same time."""


@dataclass(frozen=True, slots=True)
class Paging:
    """The requested part of a list. ``limit`` None means all rows; 0 means no rows, only their number."""

    limit: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page of a list, keyed by names of response fields, and the count over all pages.

    Attributes:
        json: a function that returns the same rows as JSON texts with the given fields, built by the database. None
            if the database cannot build them.
    """

    rows: Sequence[Row]
    count: int
    json: Callable[[tuple[Field, ...]], Sequence[str]] | None = None


def read_all_rows(result: Any) -> Any:
    """Read all rows of a page into memory, so that the result no longer needs the connection.

    Otherwise the rows of a page are read while the response is sent. Other results are returned unchanged.
    """
    return Page(list(result.rows), result.count) if isinstance(result, Page) else result


Read: TypeAlias = Callable[[Sequence[int]], Mapping[int, T]]
"""Answers the rows of some ids, by id; ids of what is gone are not in it."""


def rows_of(ids: Sequence[int], read: Read[T]) -> Sequence[T]:
    """Return a lazy sequence of the rows with these ids, in the order of the ids.

    Each iteration reads the rows again, at most ROWS_AT_ONCE at a time, so that long lists never use much memory.
    The connection must remain open for the iterations.
    """
    return _ReadInParts(ids, read)


class _ReadInParts(Sequence[T]):
    def __init__(self, ids: Sequence[int], read: Read[T]) -> None:
        self._ids, self._read = ids, read

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self._ids), ROWS_AT_ONCE):
            part = self._ids[start : start + ROWS_AT_ONCE]
            rows = self._read(part)
            yield from (rows[row_id] for row_id in part if row_id in rows)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return _ReadInParts(self._ids[index], self._read)
        return self._read([self._ids[index]])[self._ids[index]]


def complete_lazily(rows: Sequence[Row], extend: Callable[[Sequence[Row]], Sequence[Row]]) -> Sequence[Row]:
    """Return a lazy sequence of the rows as ``extend`` completes them.

    During an iteration ``extend`` gets at most ROWS_AT_ONCE rows at a time.
    """
    return _LazilyCompleted(rows, extend)


class _LazilyCompleted(Sequence[Row]):
    def __init__(self, rows: Sequence[Row], extend: Callable[[Sequence[Row]], Sequence[Row]]) -> None:
        self._rows, self._extend = rows, extend

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        walk = iter(self._rows)
        while part := list(islice(walk, ROWS_AT_ONCE)):
            yield from self._extend(part)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return _LazilyCompleted(self._rows[index], self._extend)
        return self._extend([self._rows[index]])[0]


def ordered(
    query: Select[Any], orders: Orders, arguments: Mapping[str, Any], age: ColumnElement[Any]
) -> Select[Any]:
    """Return the query in the order of ``sortby``. A minus sign means descending order.

    Rows without a value come last. Rows with equal values are ordered by ``age``.
    """
    wanted = arguments.get("sortby", "")
    column = orders.get(wanted.removeprefix("-"))
    if column is None:
        return query.order_by(age)
    return query.order_by((column.desc() if wanted.startswith("-") else column).nulls_last(), age)


def cut_page(rows: Sequence[Mapping[str, Any]], paging: Paging) -> Page:
    """Return one page of rows that are all in memory."""
    end = None if paging.limit is None else paging.offset + paging.limit
    return Page(rows[paging.offset : end], len(rows))


@dataclass(frozen=True, slots=True)
class StoredCount:
    """A faster way to count and to page a list, for tables whose number of rows is stored.

    ``count`` is a query that returns the stored number of rows. ``order`` is the only column by which the list is
    ordered, or None.
    """

    count: Select[Any]
    order: ColumnElement[Any] | None


def fetch_page(connection: Connection, query: Select[Any], paging: Paging, kept: StoredCount | None = None) -> Page:
    """Run one page of an ordered query whose columns are labelled with the names of response fields.

    The order must be total (end in an id), or pages would overlap. A second statement counts the rows only if the
    page does not show their number already.
    """
    if kept is not None and kept.order is not None and paging.limit and paging.offset:
        count = int(connection.execute(kept.count).scalar_one())
        if count >= 2 * paging.offset:
            return Page(_rows(connection, query.limit(paging.limit).offset(paging.offset)), count)
        return _page_from_the_end(connection, query, paging, kept.count.scalar_subquery(), kept.order, count)
    rows, count = fetch_rows(connection, query, paging, None if kept is None else kept.count)
    return Page(rows, count)


def _page_from_the_end(
    connection: Connection,
    query: Select[Any],
    paging: Paging,
    kept: ColumnElement[Any],
    order: ColumnElement[Any],
    count: int,
) -> Page:
    """Return a page of the second half by reading from the end, because an offset reads all rows before it.

    The statement counts again, because rows may have been added since. The page is the same as when read from the
    front.
    """
    left = func.greatest(kept - paging.offset, 0)
    cut = query.order_by(None).order_by(order.desc()).limit(func.least(left, paging.limit))
    return Page(_rows(connection, cut.offset(func.greatest(left - paging.limit, 0)))[::-1], count)


def fetch_rows(
    connection: Connection, query: Select[Any], paging: Paging, count: Select[Any] | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of one page and the count over all pages, for callers that complete the rows afterwards."""
    cut = query if paging.limit is None else query.limit(paging.limit)
    rows = _rows(connection, cut.offset(paging.offset))
    if rows and (paging.limit is None or len(rows) < paging.limit):
        return rows, paging.offset + len(rows)
    if not rows and paging.offset == 0 and paging.limit != 0:
        return rows, 0
    if count is None:
        count = select(func.count()).select_from(query.order_by(None).subquery())
    return rows, int(connection.execute(count).scalar_one())


def _rows(connection: Connection, query: Select[Any]) -> list[dict[str, Any]]:
    result = connection.execute(query)
    names = tuple(result.keys())
    return [dict(zip(names, row, strict=True)) for row in result.all()]
