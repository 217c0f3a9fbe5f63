"""Rows of dedications of zones, pods, clusters and hosts to a domain or an account."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import ARRAY, BigInteger, Column, Connection, Table, Text, case, cast, delete, func, select, text

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.database.copying import columns_from, copy_rows
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.accounts import accounts, domains
from bulkdeploy.store.tables.groups import affinity_groups, vm_affinity_groups
from bulkdeploy.store.tables.topology import clusters, dedicated_resources, hosts, pods, zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines

dedicated = dedicated_resources.c

TABLES: Mapping[Entity, Table] = {
    Entity.ZONE: zones,
    Entity.POD: pods,
    Entity.CLUSTER: clusters,
    Entity.HOST: hosts,
}
COLUMNS: Mapping[Entity, Column[Any]] = {
    Entity.ZONE: dedicated.zone_id,
    Entity.POD: dedicated.pod_id,
    Entity.CLUSTER: dedicated.cluster_id,
    Entity.HOST: dedicated.host_id,
}
HOSTS_BY: Mapping[Entity, Column[Any]] = {
    Entity.ZONE: hosts.c.zone_id,
    Entity.POD: hosts.c.pod_id,
    Entity.CLUSTER: hosts.c.cluster_id,
    Entity.HOST: hosts.c.id,
}
LEVELS = [kind.name for kind in TABLES]
Path: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dedicated:
    """A dedicated zone, pod, cluster or host, and the account or domain that may use it.

    If ``account_id`` is None, all accounts of the domain ``lineage`` and of its subdomains may use it. ``path`` has
    the internal ids from the zone down to the dedicated object.
    """

    entity: Entity
    name: str
    account_id: int | None
    lineage: str
    path: Path


def list_dedications(connection: Connection, place: Entity, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the dedications of zones, pods, clusters or hosts, ordered by id.

    ``place`` is the type.
    """
    table, column, word = TABLES[place], COLUMNS[place], place.name.lower()
    query = (
        select(
            dedicated_resources.c.uuid.label("id"),
            table.c.uuid.label(f"{word}id"),
            table.c.name.label(f"{word}name"),
            domains.c.uuid.label("domainid"),
            accounts.c.uuid.label("accountid"),
            affinity_groups.c.uuid.label("affinitygroupid"),
        )
        .select_from(
            dedicated_resources.join(table, table.c.id == column)
            .join(domains, domains.c.id == dedicated.domain_id)
            .outerjoin(accounts, accounts.c.id == dedicated.account_id)
            .outerjoin(affinity_groups, affinity_groups.c.id == dedicated.affinity_group_id)
        )
        .order_by(dedicated.id)
    )
    filters: Filters = {
        f"{word}id": by_id(column),
        "domainid": by_id(dedicated.domain_id),
        "account": same_text(accounts.c.name),
        "affinitygroupid": by_id(dedicated.affinity_group_id),
        "keyword": keyword(table.c.name),
    }
    return fetch_page(connection, filtered(query, filters, arguments), paging)


def read_dedications(place: Entity, connection: Connection) -> list[dict[str, Any]]:
    """Return the dedications of zones, pods, clusters or hosts in the format of zone files.

    ``place`` is the type.
    """
    column, table = COLUMNS[place], TABLES[place]
    query = (
        select(
            dedicated.id.label("_id"),
            dedicated.uuid.label("_uuid"),
            column.label(f"{place.name.lower()}id"),
            dedicated.domain_id.label("domainid"),
            accounts.c.name.label("account"),
        )
        .join(table, table.c.id == column)
        .outerjoin(accounts, accounts.c.id == dedicated.account_id)
        .where(table.c.removed.is_(None))
        .order_by(dedicated.id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def zones_of(connection: Connection, places: Sequence[EntityRef]) -> dict[int, EntityRef]:
    """Return the zone of each zone, pod, cluster or host, by the internal id of the object.

    All ``places`` must have the same type. The zone of a zone is the zone itself.
    """
    if places[0].entity is Entity.ZONE:
        return {place.id: place for place in places}
    table = TABLES[places[0].entity]
    rows = connection.execute(
        select(table.c.id.label("place_id"), zones.c.id, zones.c.uuid, zones.c.name)
        .join(zones, table.c.zone_id == zones.c.id)
        .where(id_in(table.c.id, {place.id for place in places}))
    )
    return {row.place_id: EntityRef(Entity.ZONE, row.id, row.uuid, row.name) for row in rows}


def dedicated_in_zones(connection: Connection, zone_ids: Collection[int]) -> list[Dedicated]:
    """Return the dedications of these zones and of the pods, clusters and hosts in them, ordered by id."""
    rows = connection.execute(
        text(
            "WITH places AS ("
            " SELECT 'ZONE' AS kind, id, name, id AS zone_id, NULL::bigint AS pod_id, NULL::bigint AS cluster_id"
            "   FROM zones WHERE removed IS NULL"
            " UNION ALL SELECT 'POD', id, name, zone_id, id, NULL FROM pods WHERE removed IS NULL"
            " UNION ALL SELECT 'CLUSTER', id, name, zone_id, pod_id, id FROM clusters WHERE removed IS NULL"
            " UNION ALL SELECT 'HOST', id, name, zone_id, pod_id, cluster_id FROM hosts WHERE removed IS NULL)"
            " SELECT p.*, r.account_id, d.lineage FROM dedicated_resources r JOIN domains d ON d.id = r.domain_id"
            " JOIN places p ON (p.kind, p.id) = (CASE WHEN r.host_id IS NOT NULL THEN 'HOST'"
            "   WHEN r.cluster_id IS NOT NULL THEN 'CLUSTER' WHEN r.pod_id IS NOT NULL THEN 'POD' ELSE 'ZONE' END,"
            "   coalesce(r.host_id, r.cluster_id, r.pod_id, r.zone_id))"
            " WHERE p.zone_id = ANY(CAST(:zones AS bigint[])) ORDER BY r.id"
        ),
        {"zones": int_array(zone_ids)},
    )
    return [
        Dedicated(Entity[row["kind"]], row["name"], row["account_id"], row["lineage"], path_of(row["kind"], row))
        for row in map(dict, rows.mappings())
    ]


def path_of(kind: str, row: Mapping[str, Any]) -> Path:
    """Return the internal ids from the zone down to a zone, pod, cluster or host. ``row`` is its row."""
    outer = ("zone_id", "pod_id", "cluster_id")
    return (*(row[name] for name in outer[: LEVELS.index(kind)]), row["id"])


def count_foreign_vms(
    connection: Connection, kind: Entity, holders: Mapping[int, tuple[str, int | None]]
) -> dict[int, int]:
    """Count the VMs on the hosts of places that do not belong to the places' holders. Zero counts are omitted.

    ``holders`` has, by the internal id of a place, a domain's lineage and an account's internal id or None. With an
    account, only its VMs belong to the holder; without one, the VMs of the domain and its subdomains do.
    """
    holder_rows = func.unnest(
        cast(list(holders), ARRAY(BigInteger)),
        cast([lineage for lineage, _ in holders.values()], ARRAY(Text)),
        cast([account_id for _, account_id in holders.values()], ARRAY(BigInteger)),
    )
    holder = holder_rows.table_valued("place_id", "lineage", "account_id", name="holder").render_derived()
    own = case(
        (holder.c.account_id.is_(None), func.starts_with(domains.c.lineage, holder.c.lineage)),
        else_=accounts.c.id == holder.c.account_id,
    )
    query = (
        select(holder.c.place_id, func.count())
        .select_from(holder.join(hosts, HOSTS_BY[kind] == holder.c.place_id))
        .join(virtual_machines, virtual_machines.c.host_id == hosts.c.id)
        .join(accounts, accounts.c.id == virtual_machines.c.account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
        .where(virtual_machines.c.removed.is_(None), ~own)
        .group_by(holder.c.place_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def dedication_groups(connection: Connection, domain_ids: Collection[int]) -> dict[tuple[int, int | None], int]:
    """Return the ids of the affinity groups by which VMs are placed on resources dedicated to their owner.

    The keys are pairs of domain and account; the account is None if the dedication is for the whole domain.
    """
    group = affinity_groups.c
    rows = connection.execute(
        select(group.id, group.domain_id, group.account_id)
        .where(
            group.affinity_type == AffinityType.EXPLICIT_DEDICATION.value,
            id_in(group.domain_id, domain_ids),
            group.removed.is_(None),
        )
        .order_by(group.id.desc())
    )
    return {(row.domain_id, row.account_id): row.id for row in rows}


def write_dedications(connection: Connection, kind: Entity, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write dedications: ``place_id``, ``domain_id``, ``account_id`` or None, and ``affinity_group_id`` of each."""
    columns = columns_from(rows)
    columns[COLUMNS[kind].name] = columns.pop("place_id")
    copy_rows(connection, dedicated_resources, len(rows), columns)


def release_places(connection: Connection, places: Sequence[EntityRef]) -> set[int]:
    """End the dedications of zones, pods, clusters or hosts, and return the ids of those that were dedicated.

    All ``places`` must have the same type. The affinity group of a holder is deleted with its last dedication,
    unless VMs are in the group.
    """
    gone = connection.execute(
        delete(dedicated_resources)
        .where(id_in(COLUMNS[places[0].entity], {place.id for place in places}))
        .returning(COLUMNS[places[0].entity].label("place_id"), dedicated.affinity_group_id)
    ).all()
    used = select(dedicated.affinity_group_id).where(dedicated.affinity_group_id.is_not(None))
    connection.execute(
        affinity_groups.update()
        .where(
            id_in(affinity_groups.c.id, {row.affinity_group_id for row in gone} - {None}),
            affinity_groups.c.id.not_in(used),
            affinity_groups.c.id.not_in(select(vm_affinity_groups.c.affinity_group_id)),
        )
        .values(removed=func.now())
    )
    return {row.place_id for row in gone}
