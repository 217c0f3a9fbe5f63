"""Rows of domains: the list queries with limits and totals, inserts, updates and deletes."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, Text, cast, exists, func, select, text, update

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.accounts.resource_counters import domain_counters
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields, insert_rows, lock_live
from bulkdeploy.store.tables.accounts import domains

FILTERS: Filters = {
    "id": by_id(domains.c.id),
    "name": same_text(domains.c.name),
    "keyword": keyword(domains.c.name),
    "level": equal(domains.c.level),
}


FIELDS: Fields = {
    "name": domains.c.name,
    "parentdomainid": domains.c.parent_id,
    "networkdomain": domains.c.network_domain,
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
    """Return one page of domains, ordered by id.

    With ``lineage``, only that domain is listed, and with ``recursive`` also its subdomains. If ``lineage`` is
    None, all domains are listed.
    """
    query = filtered(_query(), FILTERS, arguments)
    if lineage is not None:
        place = domains.c.lineage
        query = query.where(place.startswith(lineage) if recursive else place == lineage)
    return _page(connection, query, paging, with_counters=with_counters)


def list_children(
    connection: Connection, arguments: Arguments, paging: Paging, *, parent_lineage: str, recursive: bool
) -> Page:
    """Return one page of the direct subdomains of a domain, or of all its subdomains with ``recursive``."""
    query = filtered(_query(), {name: FILTERS[name] for name in ("name", "keyword")}, arguments)
    place = domains.c.lineage
    query = query.where(place.startswith(parent_lineage), place != parent_lineage)
    if not recursive:
        depth = len(parent_lineage.strip("/").split("/"))
        query = query.where(domains.c.level == depth)
    return _page(connection, query, paging, with_counters=True)


def read_domain(connection: Connection, domain_id: int) -> dict[str, Any]:
    """Return one live domain with the same fields as in lists."""
    query = _query().where(domains.c.id == domain_id)
    return dict(_page(connection, query, Paging(limit=1), with_counters=True).rows[0])


def lock_domain(connection: Connection, domain_id: int) -> Row[Any] | None:
    """Lock a live domain and return its row, or None if the domain does not exist.

    The lock prevents the removal and renaming of the domain, and concurrent additions of names to it. Domains are
    the first objects in the locking order (ADR 5), and are locked from the top down.
    """
    return lock_domains(connection, [domain_id]).get(domain_id)


def lock_domains(connection: Connection, domain_ids: Iterable[int]) -> dict[int, Row[Any]]:
    """Lock live domains, from the top down, and return their rows by internal id. Other ids are omitted.

    A locked domain cannot be removed or renamed, and no names can be added to it.
    """
    return lock_live(connection, domains, domain_ids, order=domains.c.lineage)


def lock_parents(connection: Connection, domain_ids: Collection[int]) -> None:
    """Lock the parents of these domains, so that the names of their direct subdomains do not change meanwhile."""
    if domain_ids:
        above = select(domains.c.parent_id).where(id_in(domains.c.id, domain_ids))
        query = select(domains.c.id).where(domains.c.id.in_(above)).order_by(domains.c.lineage)
        connection.execute(query.with_for_update(key_share=True))


def has_child_named(connection: Connection, parent_id: int, name: str) -> bool:
    """Return whether a domain has a live direct subdomain with this name, ignoring case."""
    query = select(domains.c.id).where(
        domains.c.parent_id == parent_id, func.lower(domains.c.name) == name.lower(), domains.c.removed.is_(None)
    )
    return connection.execute(query).first() is not None


def insert_domains(connection: Connection, new: Sequence[tuple[Row[Any], dict[str, Any]]]) -> list[EntityRef]:
    """Insert new domains, given as pairs of the locked parent's row and the columns, and return them.

    Raises:
        NameTaken: the parent already has a live direct subdomain with this name, ignoring case.
    """
    rows = [
        {
            **columns,
            "parent_id": parent.id,
            "path": f"{parent.path}/{columns['name']}",
            "lineage": "",
            "level": parent.level + 1,
        }
        for parent, columns in new
    ]
    made = insert_rows(connection, Entity.DOMAIN, rows)
    parent = domains.alias("parent")
    lineage = parent.c.lineage + cast(domains.c.id, Text) + "/"
    below = update(domains).where(id_in(domains.c.id, [ref.id for ref in made]), parent.c.id == domains.c.parent_id)
    connection.execute(below.values(lineage=lineage))
    return made


_RENAME = text(
    "UPDATE domains SET path = :path || substr(path, :behind), name = CASE id WHEN :id THEN :name ELSE name END"
    " WHERE lineage LIKE :lineage || '%'"
)


def rename_domain(connection: Connection, domain: Row[Any], name: str) -> None:
    """Rename a locked domain, and update the paths of the domain and of all its subdomains."""
    above, _, _ = domain.path.rpartition("/")
    path = f"{above}/{name}" if above else name
    connection.execute(
        _RENAME,
        {
            "path": path,
            "behind": len(domain.path) + 1,
            "id": domain.id,
            "name": name,
            "lineage": domain.lineage,
        },
    )


_IN_USE = text(
    "SELECT d.id,"
    " (SELECT count(*) FROM domains WHERE parent_id = d.id AND removed IS NULL) AS domains,"
    " (SELECT count(*) FROM accounts WHERE domain_id = d.id AND removed IS NULL AND account_type <> 5) AS accounts,"
    " (SELECT count(*) FROM projects WHERE domain_id = d.id AND removed IS NULL) AS projects,"
    " (SELECT count(*) FROM networks WHERE domain_id = d.id AND removed IS NULL) AS networks,"
    " (SELECT count(*) FROM dedicated_resources WHERE domain_id = d.id) AS dedications"
    " FROM unnest(CAST(:ids AS bigint[])) AS d (id)"
)


def uses_of_domains(connection: Connection, domain_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Return the number of objects that each domain still contains, by kind. Kinds with no objects are omitted."""
    rows = connection.execute(_IN_USE, {"ids": int_array(domain_ids)}).mappings()
    return {row["id"]: {kind: count for kind, count in row.items() if count and kind != "id"} for row in rows}


_REMOVE = (
    "UPDATE affinity_groups SET removed = now() WHERE removed IS NULL AND domain_id = ANY(:domains)",
    "UPDATE networks SET removed = now() WHERE removed IS NULL AND domain_id = ANY(:domains)",
    "DELETE FROM dedicated_resources WHERE domain_id = ANY(:domains)",
    "DELETE FROM resource_limits WHERE owner_kind = 'domain' AND owner_id = ANY(:domains)",
    "DELETE FROM configuration_values WHERE scope = 'Domain' AND scope_id = ANY(:domains)",
    "UPDATE domains SET removed = now(), state = 'Inactive' WHERE id = ANY(:domains)",
)


_BELOW = text(
    "SELECT id FROM domains WHERE lineage LIKE ANY(:patterns) AND removed IS NULL"
    " ORDER BY lineage FOR NO KEY UPDATE"
)


def lock_domains_below(connection: Connection, lineages: Iterable[str]) -> list[int]:
    """Lock the live domains with these lineages and all their subdomains, from the top down; return their ids."""
    patterns = [f"{lineage}%" for lineage in lineages]
    return list(connection.execute(_BELOW, {"patterns": patterns}).scalars())


def remove_domains(connection: Connection, domain_ids: list[int]) -> None:
    """Mark domains as removed, together with the objects that belong to a domain and to no account.

    Offerings and zones that are dedicated to such a domain cannot be used any more.
    """
    for statement in _REMOVE:
        connection.execute(text(statement), {"domains": domain_ids})


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
            *annotation_columns(Entity.DOMAIN),
        )
        .select_from(domains.outerjoin(parent, parent.c.id == domain.parent_id))
        .where(domain.removed.is_(None))
        .order_by(domain.id)
    )
