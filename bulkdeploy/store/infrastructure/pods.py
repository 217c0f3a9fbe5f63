"""The list query of pods, and what may be in one."""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from sqlalchemy import Column, Connection, select

from bulkdeploy.domain.capacity import CapacityLevel
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered, keyword, same_text
from bulkdeploy.store.ledger.capacity import add_capacity
from bulkdeploy.store.listing import Page, Paging, fetch_rows
from bulkdeploy.store.tables.networks import ip_ranges
from bulkdeploy.store.tables.topology import clusters, hosts, pods, zones

FILTERS: Filters = {
    "id": by_id(pods.c.id),
    "name": same_text(pods.c.name),
    "keyword": keyword(pods.c.name),
    "zoneid": by_id(pods.c.zone_id),
    "allocationstate": same_text(pods.c.allocation_state),
}


FOR_ALL, UNTAGGED = "0", "vlan://untagged"
"""What every range of a pod is: not kept to system VMs, and without a VLAN of its own."""

CONTENTS: Mapping[str, Column[Any]] = {
    "clusters": clusters.c.pod_id,
    "hosts": hosts.c.pod_id,
    "address ranges": ip_ranges.c.pod_id,
}
"""What must be gone before a pod is."""


def zone_of(connection: Connection, pod_id: int) -> EntityRef:
    """The zone that a pod lies in."""
    row = connection.execute(
        select(zones.c.id, zones.c.uuid, zones.c.name)
        .join(pods, pods.c.zone_id == zones.c.id)
        .where(pods.c.id == pod_id)
    ).one()
    return EntityRef(Entity.ZONE, row.id, row.uuid, row.name)


def management_networks(
    connection: Connection, zone_id: int, *, but: int | None = None
) -> dict[str, tuple[str, str]]:
    """Gateway and netmask of the zone's pods that have them, by the pod's name; one pod may be left out."""
    pod = pods.c
    rows = connection.execute(
        select(pod.name, pod.gateway, pod.netmask)
        .where(
            pod.zone_id == zone_id, pod.removed.is_(None), pod.gateway.is_not(None), pod.id.is_distinct_from(but)
        )
        .order_by(pod.id)
    )
    return {row.name: (row.gateway, row.netmask) for row in rows}


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
        _add_ranges(row)
    add_capacity(connection, CapacityLevel.POD, rows, wanted=bool(arguments.get("showcapacities")))
    return Page(rows, count)


def _add_ranges(row: dict[str, Any]) -> None:
    """A pod's one range in both forms that CloudStack has for it.

    Terraform reads the first element of each list, so a pod without a range has empty texts in them.
    """
    start, end = row["startip"] or "", row["endip"] or ""
    facts = {"startip": start, "endip": end, "forsystemvms": FOR_ALL, "vlanid": UNTAGGED}
    row.update({name: [value] for name, value in facts.items()})
    row["ipranges"] = [{**facts, "gateway": row["gateway"], "cidr": _cidr(row)}] if start else []


def _cidr(row: Mapping[str, Any]) -> str:
    return str(IPv4Network(f"{row['gateway']}/{row['netmask']}", strict=False))
