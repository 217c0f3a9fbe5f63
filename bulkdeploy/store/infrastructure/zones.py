"""The list query of zones, and the objects in a zone."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Connection, and_, exists, or_, select

from bulkdeploy.domain.accounts.accounts import Caller, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.capacity import CapacityLevel
from bulkdeploy.domain.infrastructure.topology import AllocationState
from bulkdeploy.store.ledger.capacity import add_capacity
from bulkdeploy.store.resource_tags import ZONE, add_tags
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    by_id,
    by_ids,
    filtered,
    id_in,
    keyword,
    same_text,
    tagged,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.rows.visibility import within
from bulkdeploy.store.tables.accounts import domains
from bulkdeploy.store.tables.image_stores import image_stores
from bulkdeploy.store.tables.networks import ip_ranges, networks, physical_networks
from bulkdeploy.store.tables.topology import clusters, dedicated_resources, pods, storage_pools, zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines

ZONE_TYPE = "Core"

FILTERS: Filters = {
    "id": by_id(zones.c.id),
    "ids": by_ids(zones.c.id),
    "name": same_text(zones.c.name),
    "keyword": keyword(zones.c.name, zones.c.description),
    "networktype": same_text(zones.c.network_type),
    "domainid": by_id(zones.c.domain_id),
    "tags": tagged(ZONE, zones.c.id),
}

FIELDS: Fields = {
    "name": zones.c.name,
    "networktype": zones.c.network_type,
    "dns1": zones.c.dns1,
    "dns2": zones.c.dns2,
    "internaldns1": zones.c.internal_dns1,
    "internaldns2": zones.c.internal_dns2,
    "domain": zones.c.network_domain,
    "domainid": zones.c.domain_id,
    "guestcidraddress": zones.c.guest_cidr,
    "localstorageenabled": zones.c.local_storage_enabled,
    "securitygroupenabled": zones.c.security_groups_enabled,
    "allocationstate": zones.c.allocation_state,
    "sortkey": zones.c.sort_key,
}

CONTENTS: Mapping[str, Column[Any]] = {
    "pods": pods.c.zone_id,
    "storage pools": storage_pools.c.zone_id,
    "image stores": image_stores.c.zone_id,
    "networks": networks.c.zone_id,
    "physical networks": physical_networks.c.zone_id,
    "public address ranges": ip_ranges.c.zone_id,
}
"""What must be gone before a zone is; clusters and hosts are in pods."""


def list_zones(connection: Connection, caller: Caller, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of zones, ordered by sort key and id.

    Callers other than root admins see enabled zones that are public or belong to their domain. With
    ``available=false``, they see only those of these zones in which their account has VMs.
    """
    query = _query().where(zones.c.removed.is_(None))
    if not caller.is_root_admin:
        query = query.where(_open_to(caller), zones.c.allocation_state == AllocationState.ENABLED)
        if arguments.get("available") is False:
            query = query.where(_has_vms_of(caller.owner.account_id))
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        row["type"] = ZONE_TYPE
        row["displaytext"] = row["description"]
    add_tags(connection, ZONE, rows, keep_id=True)
    add_capacity(connection, CapacityLevel.ZONE, rows, wanted=bool(arguments.get("showcapacities")))
    return Page(rows, count)


def read_zone_names(connection: Connection, zone_ids: Iterable[int]) -> dict[int, str]:
    """Return the names of zones by id. Removed zones are omitted."""
    query = select(zones.c.id, zones.c.name).where(id_in(zones.c.id, zone_ids), zones.c.removed.is_(None))
    return {row.id: row.name for row in connection.execute(query)}


def zone_of_place(connection: Connection, place: EntityRef) -> tuple[int, UUID] | None:
    """Return the id and uuid of a zone, or of the zone of a pod or cluster.

    Returns None if the zone, pod or cluster was removed.
    """
    table = {Entity.ZONE: zones, Entity.POD: pods, Entity.CLUSTER: clusters}[place.entity]
    its_zone = zones.c.id == (table.c.id if table is zones else table.c.zone_id)
    query = select(zones.c.id, zones.c.uuid).where(table.c.id == place.id, table.c.removed.is_(None), its_zone)
    row = connection.execute(query).first()
    return None if row is None else (row.id, row.uuid)


def has_zone(connection: Connection) -> bool:
    """Return whether there is a live zone."""
    return connection.execute(select(zones.c.id).where(zones.c.removed.is_(None)).limit(1)).first() is not None


def private_zones(connection: Connection, zone_ids: Iterable[int]) -> dict[int, str]:
    """Return the lineage of the domain to which each of these zones belongs, by zone id.

    Public zones are omitted.
    """
    query = select(zones.c.id, domains.c.lineage).join(domains, domains.c.id == zones.c.domain_id)
    return {row.id: row.lineage for row in connection.execute(query.where(id_in(zones.c.id, zone_ids)))}


def _query() -> Any:
    zone = zones.c
    return (
        select(
            zone.id.label("_id"),
            zone.uuid.label("id"),
            zone.name,
            zone.description,
            zone.network_type.label("networktype"),
            zone.security_groups_enabled.label("securitygroupsenabled"),
            zone.local_storage_enabled.label("localstorageenabled"),
            zone.allocation_state.label("allocationstate"),
            zone.dns1,
            zone.dns2,
            zone.internal_dns1.label("internaldns1"),
            zone.internal_dns2.label("internaldns2"),
            zone.guest_cidr.label("guestcidraddress"),
            zone.network_domain.label("domain"),
            domains.c.uuid.label("domainid"),
            domains.c.name.label("domainname"),
            *annotation_columns(Entity.ZONE),
        )
        .select_from(zones.outerjoin(domains, domains.c.id == zone.domain_id))
        .order_by(zone.sort_key, zone.id)
    )


def _open_to(caller: Caller) -> Condition:
    """Return the condition for zones that are open to the caller.

    Such a zone is public or belongs to the caller's domain, and is not dedicated to others.
    """
    lineage = caller.owner.lineage
    reachable = within(lineage, domains.c.lineage)
    if caller.role_type is not RoleType.USER:
        reachable = or_(reachable, domains.c.lineage.startswith(lineage))
    dedication, holder = dedicated_resources.c, domains.alias()
    mine = and_(
        within(lineage, holder.c.lineage),
        or_(dedication.account_id.is_(None), dedication.account_id == caller.owner.account_id),
    )
    if caller.role_type is not RoleType.USER:
        mine = or_(mine, holder.c.lineage.startswith(lineage))
    to_others = (
        select(1)
        .select_from(dedicated_resources.join(holder, holder.c.id == dedication.domain_id))
        .where(dedication.zone_id == zones.c.id, ~mine)
    )
    return and_(or_(zones.c.domain_id.is_(None), reachable), ~exists(to_others))


def _has_vms_of(account_id: int) -> Condition:
    vm = virtual_machines.c
    found = select(1).where(vm.zone_id == zones.c.id, vm.account_id == account_id, vm.removed.is_(None))
    return exists(found)
