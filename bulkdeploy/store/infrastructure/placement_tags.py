"""The tags of hosts and storage pools."""

from typing import Any

from sqlalchemy import Connection, Table, func, select

from bulkdeploy.store.rows.filters import Arguments, filtered, keyword
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.topology import hosts, storage_pools


def list_host_tags(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the tags of hosts, by name."""
    return _list(connection, hosts, arguments, paging)


def list_storage_tags(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the tags of storage pools, by name."""
    return _list(connection, storage_pools, arguments, paging)


def _list(connection: Connection, table: Table, arguments: Arguments, paging: Paging) -> Page:
    carried = select(func.unnest(table.c.tags).label("name")).where(table.c.removed.is_(None)).distinct().subquery()
    query: Any = select(carried.c.name).order_by(carried.c.name)
    return fetch_page(connection, filtered(query, {"keyword": keyword(carried.c.name)}, arguments), paging)
