"""Pages of list queries: how every list command counts, orders and cuts its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select


@dataclass(frozen=True, slots=True)
class Paging:
    """Which rows of a list are wanted: ``limit`` None means all."""

    limit: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of one page, keyed by wire field names, and the count over all pages."""

    rows: Sequence[Mapping[str, Any]]
    count: int


def cut_page(rows: Sequence[Mapping[str, Any]], paging: Paging) -> Page:
    """One page of rows that are all at hand."""
    end = None if paging.limit is None else paging.offset + paging.limit
    return Page(rows[paging.offset : end], len(rows))


def fetch_page(connection: Connection, query: Select[Any], paging: Paging) -> Page:
    """Run an ordered query whose columns are labelled with wire names, one page of it.

    The order must be total (end in an id), or pages would overlap. The count costs a second
    statement only where the page does not already show it.
    """
    return Page(*fetch_rows(connection, query, paging))


def fetch_rows(connection: Connection, query: Select[Any], paging: Paging) -> tuple[list[dict[str, Any]], int]:
    """``fetch_page`` for queries whose rows are completed afterwards: the rows, and the count over all pages."""
    cut = query if paging.limit is None else query.limit(paging.limit)
    result = connection.execute(cut.offset(paging.offset))
    names = tuple(result.keys())
    rows = [dict(zip(names, row, strict=True)) for row in result]
    if rows and (paging.limit is None or len(rows) < paging.limit):
        return rows, paging.offset + len(rows)
    if not rows and paging.offset == 0:
        return rows, 0
    counted = select(func.count()).select_from(query.order_by(None).subquery())
    return rows, connection.execute(counted).scalar_one()
