"""Zones, pods, clusters and hosts that a domain or an account has alone: listed, found, written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Table, delete, func, select, text

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.accounts import accounts, domains
from bulkdeploy.store.tables.groups import affinity_groups, vm_affinity_groups
from bulkdeploy.store.tables.topology import clusters, dedicated_resources, hosts, pods, zones

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


@dataclass(frozen=True, slots=True)
class Dedicated:
    """A place that somebody has alone, with its holder; ``account_id`` None: a whole domain with those below."""

    entity: Entity
    name: str
    account_id: int | None
    lineage: str


def list_dedications(connection: Connection, place: Entity, arguments: Arguments, paging: Paging) -> Page:
    """One page of dedicated places of one kind, by id."""
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
    """Dedicated places of one kind, as zone files say it."""
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


def zone_of(connection: Connection, place: EntityRef) -> EntityRef:
    """The zone that a place is, or lies in."""
    return place if place.entity is Entity.ZONE else zones_of(connection, [place])[place.id]


def zones_of(connection: Connection, places: Sequence[EntityRef]) -> dict[int, EntityRef]:
    """The zones that places of one kind lie in, by the places' internal ids."""
    table = TABLES[places[0].entity]
    rows = connection.execute(
        select(table.c.id.label("place_id"), zones.c.id, zones.c.uuid, zones.c.name)
        .join(zones, table.c.zone_id == zones.c.id)
        .where(id_in(table.c.id, {place.id for place in places}))
    )
    return {row.place_id: EntityRef(Entity.ZONE, row.id, row.uuid, row.name) for row in rows}


def around_and_inside(connection: Connection, place: EntityRef) -> list[Dedicated]:
    """What is dedicated of a place itself, of what it lies in and of what lies in it; the place itself first."""
    rows = connection.execute(
        text(
            "WITH RECURSIVE spots AS ("
            " SELECT 'ZONE' AS kind, id, name, id AS zone_id, NULL::bigint AS pod_id, NULL::bigint AS cluster_id,"
            "   NULL::bigint AS host_id FROM zones WHERE removed IS NULL"
            " UNION ALL SELECT 'POD', id, name, zone_id, id, NULL, NULL FROM pods WHERE removed IS NULL"
            " UNION ALL SELECT 'CLUSTER', id, name, zone_id, pod_id, id, NULL FROM clusters WHERE removed IS NULL"
            " UNION ALL SELECT 'HOST', id, name, zone_id, pod_id, cluster_id, id FROM hosts WHERE removed IS NULL),"
            " mine AS (SELECT * FROM spots WHERE kind = :kind AND id = :id)"
            " SELECT s.kind, s.name, r.account_id, d.lineage, s.id = m.id AND s.kind = m.kind AS is_itself"
            " FROM dedicated_resources r JOIN domains d ON d.id = r.domain_id CROSS JOIN mine m JOIN spots s ON"
            "   (s.kind, s.id) = (CASE WHEN r.host_id IS NOT NULL THEN 'HOST' WHEN r.cluster_id IS NOT NULL THEN"
            "   'CLUSTER' WHEN r.pod_id IS NOT NULL THEN 'POD' ELSE 'ZONE' END,"
            "   coalesce(r.host_id, r.cluster_id, r.pod_id, r.zone_id))"
            " WHERE s.zone_id = m.zone_id AND (s.pod_id IS NULL OR m.pod_id IS NULL OR s.pod_id = m.pod_id)"
            "   AND (s.cluster_id IS NULL OR m.cluster_id IS NULL OR s.cluster_id = m.cluster_id)"
            "   AND (s.host_id IS NULL OR m.host_id IS NULL OR s.host_id = m.host_id)"
            " ORDER BY is_itself DESC, r.id"
        ),
        {"kind": place.entity.name, "id": place.id},
    )
    return [Dedicated(Entity[row.kind], row.name, row.account_id, row.lineage) for row in rows]


def count_foreign_vms(connection: Connection, place: EntityRef, lineage: str, account_id: int | None) -> int:
    """VMs on hosts of a place that belong neither to the account nor, without one, to the domain or one below."""
    found: int = connection.execute(
        text(
            "SELECT count(*) FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
            " JOIN accounts a ON a.id = v.account_id JOIN domains d ON d.id = a.domain_id"
            " WHERE CASE :kind WHEN 'HOST' THEN h.id WHEN 'CLUSTER' THEN h.cluster_id WHEN 'POD' THEN h.pod_id"
            "   ELSE h.zone_id END = :place"
            " AND v.removed IS NULL AND CASE WHEN CAST(:account AS bigint) IS NULL"
            "   THEN NOT starts_with(d.lineage, :lineage) ELSE a.id <> :account END"
        ),
        {"kind": place.entity.name, "place": place.id, "lineage": lineage, "account": account_id},
    ).scalar_one()
    return found


def dedication_group(connection: Connection, domain_id: int, account_id: int | None) -> EntityRef | None:
    """The holder's affinity group that its VMs join to be placed where nobody else's are."""
    group = affinity_groups.c
    row = connection.execute(
        select(group.id, group.uuid, group.name)
        .where(
            group.affinity_type == AffinityType.EXPLICIT_DEDICATION.value,
            group.domain_id == domain_id,
            group.account_id.is_not_distinct_from(account_id),
            group.removed.is_(None),
        )
        .order_by(group.id)
        .limit(1)
    ).first()
    return None if row is None else EntityRef(Entity.AFFINITY_GROUP, row.id, row.uuid, row.name)


def write_dedication(
    connection: Connection, place: EntityRef, domain_id: int, account_id: int | None, group_id: int
) -> None:
    """Give a place to its holder."""
    connection.execute(
        dedicated_resources.insert().values(
            **{COLUMNS[place.entity].name: place.id},
            domain_id=domain_id,
            account_id=account_id,
            affinity_group_id=group_id,
        )
    )


def release_place(connection: Connection, place: EntityRef) -> bool:
    """Take a place from its holder, and the holder's group away when nothing else is left to it and no VM is in it.

    False where nobody had the place.
    """
    gone = connection.execute(
        delete(dedicated_resources)
        .where(COLUMNS[place.entity] == place.id)
        .returning(dedicated_resources.c.affinity_group_id)
    ).scalars()
    groups = list(gone)
    used = select(dedicated.affinity_group_id).where(dedicated.affinity_group_id.is_not(None))
    connection.execute(
        affinity_groups.update()
        .where(
            affinity_groups.c.id.in_([group for group in groups if group is not None]),
            affinity_groups.c.id.not_in(used),
            affinity_groups.c.id.not_in(select(vm_affinity_groups.c.affinity_group_id)),
        )
        .values(removed=func.now())
    )
    return bool(groups)
