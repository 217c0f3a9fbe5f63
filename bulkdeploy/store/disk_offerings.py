"""The list query of disk offerings."""

from typing import Any

from sqlalchemy import Connection, Select, select

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered, keyword, ref_in_array, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_rows
from bulkdeploy.store.offering_places import offered_in, offered_to, place_columns
from bulkdeploy.store.tables.offerings import disk_offerings

ACTIVE = "Active"

FILTERS: Filters = {
    "id": by_id(disk_offerings.c.id),
    "name": same_text(disk_offerings.c.name),
    "keyword": keyword(disk_offerings.c.name, disk_offerings.c.display_text),
    "state": same_text(disk_offerings.c.state),
    "storagetype": same_text(disk_offerings.c.storage_type),
    "zoneid": ref_in_array(disk_offerings.c.zone_ids),
}


def list_disk_offerings(
    connection: Connection, caller: Caller, arguments: Arguments, lineage: str | None, paging: Paging
) -> Page:
    """One page of offerings that the caller may use, by sort key and id; ``lineage`` is that of ``domainid``.

    Only active ones, unless ``state`` asks for others; to others than root admins only displayed ones.
    """
    query = filtered(_query().where(offered_to(disk_offerings, caller)), FILTERS, arguments)
    if "state" not in arguments:
        query = query.where(disk_offerings.c.state == ACTIVE)
    if not caller.is_root_admin:
        query = query.where(disk_offerings.c.display_offering)
    if lineage is not None:
        recursive = bool(arguments.get("isrecursive"))
        query = query.where(offered_in(disk_offerings, arguments["domainid"].id, lineage, recursive=recursive))
    rows, count = fetch_rows(connection, query, paging)
    for row in rows:
        row["tags"] = ",".join(row["tags"]) or None
        row["details"] = row["details"] or None
        row["iscustomizediops"] = False
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
            offering.display_offering.label("displayoffering"),
            offering.details,
            offering.state,
            offering.created,
            *place_columns(disk_offerings),
        )
        .where(offering.removed.is_(None))
        .order_by(offering.sort_key, offering.id)
    )
