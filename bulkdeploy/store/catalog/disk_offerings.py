"""The list query of disk offerings, and their rows."""

from typing import Any

from sqlalchemy import Connection, Select, any_, func, or_, select

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import PoolScope, StorageType
from bulkdeploy.store.catalog.disk_settings import disk_fields, encrypted, show_disk_settings
from bulkdeploy.store.catalog.offering_places import Wanted, in_state, offered_to, place_columns
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    by_id,
    filtered,
    keyword,
    ref_in_array,
    same_text,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.offerings import disk_offerings, service_offerings
from bulkdeploy.store.tables.topology import storage_pools
from bulkdeploy.store.tables.virtual_machines import volumes

ACTIVE = "Active"

FIELDS: Fields = {
    "name": disk_offerings.c.name,
    "displaytext": disk_offerings.c.display_text,
    "disksize": func.nullif(disk_offerings.c.disk_gib, 0),
    "customized": disk_offerings.c.customized,
    "storagetype": disk_offerings.c.storage_type,
    "provisioningtype": disk_offerings.c.provisioning_type,
    "tags": func.array_to_string(disk_offerings.c.storage_tags, ","),
    "displayoffering": disk_offerings.c.display_offering,
    "domainid": disk_offerings.c.domain_ids,
    "zoneid": disk_offerings.c.zone_ids,
    "details": disk_offerings.c.details,
    **disk_fields(disk_offerings, "encrypt"),
    "state": disk_offerings.c.state,
    "sortkey": disk_offerings.c.sort_key,
}


def _suits_pool(pool: EntityRef) -> Condition:
    """Return the condition for offerings whose volumes fit this pool's tags, zone and scope."""
    offering, one = disk_offerings.c, storage_pools.c
    is_local = offering.storage_type == StorageType.LOCAL.value
    query = select(1).where(
        one.id == pool.id,
        offering.storage_tags.op("<@")(one.tags),
        is_local == (one.scope == PoolScope.HOST.value),
        or_(func.cardinality(offering.zone_ids) == 0, one.zone_id == any_(offering.zone_ids)),
    )
    return query.correlate(disk_offerings).exists()


def _like_that_of(volume: EntityRef) -> Condition:
    """Return the condition for other offerings with the same storage tags and storage type as this volume's."""
    offering, one, disk, root = disk_offerings.c, volumes.c, disk_offerings.alias("present"), service_offerings.c
    query = (
        select(1)
        .select_from(volumes)
        .outerjoin(disk, disk.c.id == one.disk_offering_id)
        .outerjoin(service_offerings, root.id == one.service_offering_id)
        .where(
            one.id == volume.id,
            offering.id.is_distinct_from(disk.c.id),
            offering.storage_tags == func.coalesce(disk.c.storage_tags, root.storage_tags),
            offering.storage_type == func.coalesce(disk.c.storage_type, root.storage_type),
        )
    )
    return query.correlate(disk_offerings).exists()


FILTERS: Filters = {
    "id": by_id(disk_offerings.c.id),
    "name": same_text(disk_offerings.c.name),
    "keyword": keyword(disk_offerings.c.name, disk_offerings.c.display_text),
    "state": in_state(disk_offerings.c.state),
    "storagetype": same_text(disk_offerings.c.storage_type),
    "zoneid": ref_in_array(disk_offerings.c.zone_ids),
    "encrypt": encrypted(disk_offerings),
    "storageid": _suits_pool,
    "volumeid": _like_that_of,
}


def list_disk_offerings(
    connection: Connection, caller: Caller, arguments: Arguments, wanted: Wanted, paging: Paging
) -> Page:
    """Return one page of offerings that the caller may use, ordered by sort key and id.

    Only active offerings are listed unless ``state`` or ``wanted`` requests others. Callers other than root admins
    see only displayed offerings unless ``wanted`` requests hidden ones.
    """
    offered = offered_to(disk_offerings, caller, from_below=wanted.from_below)
    seen = _query().where(offered, *wanted.conditions(disk_offerings))
    query = filtered(seen, FILTERS, arguments)
    if "state" not in arguments and not wanted.hidden:
        query = query.where(disk_offerings.c.state == ACTIVE)
    if not caller.is_root_admin and not wanted.hidden:
        query = query.where(disk_offerings.c.display_offering)
    rows, count = fetch_rows(connection, query, paging)
    for row in rows:
        row["tags"] = ",".join(row["tags"]) or None
        row["details"] = row["details"] or None
        row["iscustomizediops"] = False
        show_disk_settings(row, "encrypt")
    return Page(rows, count)


def _query() -> Select[Any]:
    offering = disk_offerings.c
    return (
        select(
            offering.uuid.label("id"),
            offering.name,
            offering.display_text.label("displaytext"),
            offering.disk_gib.label("disksize"),
            offering.customized.label("iscustomized"),
            offering.storage_type.label("storagetype"),
            offering.storage_tags.label("tags"),
            offering.provisioning_type.label("provisioningtype"),
            offering.disk_parameters,
            offering.display_offering.label("displayoffering"),
            offering.details,
            offering.state,
            offering.created,
            *place_columns(disk_offerings),
            *annotation_columns(Entity.DISK_OFFERING),
        )
        .where(offering.removed.is_(None))
        .order_by(offering.sort_key, offering.id)
    )
