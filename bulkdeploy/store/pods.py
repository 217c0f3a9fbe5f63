"""The list query of pods."""

from sqlalchemy import Connection, select

from bulkdeploy.domain.capacity import CapacityLevel
from bulkdeploy.store.capacity import add_capacity
from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_rows
from bulkdeploy.store.tables.topology import pods, zones

FILTERS: Filters = {
    "id": by_id(pods.c.id),
    "name": same_text(pods.c.name),
    "keyword": keyword(pods.c.name),
    "zoneid": by_id(pods.c.zone_id),
    "allocationstate": same_text(pods.c.allocation_state),
}


def list_pods(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """One page of pods by id."""
    pod = pods.c
    query = (
        select(
            pod.id.label("_id"),
            pod.uuid.label("id"),
            pod.name,
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            pod.gateway,
            pod.netmask,
            pod.start_ip.label("startip"),
            pod.end_ip.label("endip"),
            pod.allocation_state.label("allocationstate"),
        )
        .select_from(pods.join(zones, zones.c.id == pod.zone_id))
        .where(pod.removed.is_(None))
        .order_by(pod.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        for bound in ("startip", "endip"):
            row[bound] = [] if row[bound] is None else [row[bound]]
    add_capacity(connection, CapacityLevel.POD, rows, wanted=bool(arguments.get("showcapacities")))
    return Page(rows, count)
