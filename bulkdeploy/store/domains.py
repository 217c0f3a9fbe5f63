"""The list queries of domains, with limits and totals."""

from typing import Any

from sqlalchemy import Connection, Select, exists, select

from bulkdeploy.store.filters import Arguments, Filters, by_id, equal, filtered, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_rows
from bulkdeploy.store.resource_counters import domain_counters
from bulkdeploy.store.tables.accounts import domains

FILTERS: Filters = {
    "id": by_id(domains.c.id),
    "name": same_text(domains.c.name),
    "keyword": keyword(domains.c.name),
    "level": equal(domains.c.level),
}


def list_domains(
    connection: Connection,
    arguments: Arguments,
    paging: Paging,
    *,
    lineage: str | None,
    recursive: bool,
    with_counters: bool,
) -> Page:
    """One page of domains by id: the one with ``lineage``, with ``recursive`` those below it too; None: all."""
    query = filtered(_query(), FILTERS, arguments)
    if lineage is not None:
        place = domains.c.lineage
        query = query.where(place.startswith(lineage) if recursive else place == lineage)
    return _page(connection, query, paging, with_counters=with_counters)


def list_children(
    connection: Connection, arguments: Arguments, paging: Paging, *, parent_lineage: str, recursive: bool
) -> Page:
    """One page of the domains right below another one; with ``recursive`` of all below it."""
    query = filtered(_query(), {name: FILTERS[name] for name in ("name", "keyword")}, arguments)
    place = domains.c.lineage
    query = query.where(place.startswith(parent_lineage), place != parent_lineage)
    if not recursive:
        depth = len(parent_lineage.strip("/").split("/"))
        query = query.where(domains.c.level == depth)
    return _page(connection, query, paging, with_counters=True)


def _page(connection: Connection, query: Select[Any], paging: Paging, *, with_counters: bool) -> Page:
    rows, count = fetch_rows(connection, query, paging)
    lineages = {row.pop("_id"): row.pop("_lineage") for row in rows}
    if with_counters:
        counters = domain_counters(connection, lineages)
        for domain_id, row in zip(lineages, rows, strict=True):
            row.update(counters[domain_id])
    return Page(rows, count)


def _query() -> Select[Any]:
    domain, parent, child = domains.c, domains.alias("parent"), domains.alias("child")
    has_child = exists(select(1).where(child.c.parent_id == domain.id, child.c.removed.is_(None)))
    return (
        select(
            domain.id.label("_id"),
            domain.lineage.label("_lineage"),
            domain.uuid.label("id"),
            domain.name,
            domain.level,
            domain.path,
            domain.state,
            domain.network_domain.label("networkdomain"),
            domain.created,
            parent.c.uuid.label("parentdomainid"),
            parent.c.name.label("parentdomainname"),
            has_child.label("haschild"),
        )
        .select_from(domains.outerjoin(parent, parent.c.id == domain.parent_id))
        .where(domain.removed.is_(None))
        .order_by(domain.id)
    )
