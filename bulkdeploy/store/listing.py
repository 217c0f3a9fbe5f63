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


def fetch_page(connection: Connection, query: Select[Any], paging: Paging) -> Page:
    """Run an ordered query whose columns are labelled with wire names, one page of it.

    The order must be total (end in an id), or pages would overlap. The count costs a second
    statement only where the page does not already show it.
    """
    cut = query if paging.limit is None else query.limit(paging.limit)
    rows = [dict(row) for row in connection.execute(cut.offset(paging.offset)).mappings()]
    if rows and (paging.limit is None or len(rows) < paging.limit):
        return Page(rows, paging.offset + len(rows))
    if not rows and paging.offset == 0:
        return Page(rows, 0)
    counted = select(func.count()).select_from(query.order_by(None).subquery())
    return Page(rows, connection.execute(counted).scalar_one())
