"""The list query of pods, and the objects in a pod."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any

from sqlalchemy import Column, Connection, select

from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.capacity import CapacityLevel
from bulkdeploy.store.ledger.capacity import add_capacity
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.networks import ip_ranges
from bulkdeploy.store.tables.topology import clusters, hosts, pods, zones

FILTERS: Filters = {
    "id": by_id(pods.c.id),
    "name": same_text(pods.c.name),
    "keyword": keyword(pods.c.name),
    "zoneid": by_id(pods.c.zone_id),
    "allocationstate": same_text(pods.c.allocation_state),
    "allocpolicy": same_text(pods.c.alloc_policy),
}

FIELDS: Fields = {
    "zoneid": pods.c.zone_id,
    "name": pods.c.name,
    "gateway": pods.c.gateway,
    "netmask": pods.c.netmask,
    "startip": pods.c.start_ip,
    "endip": pods.c.end_ip,
    "allocationstate": pods.c.allocation_state,
    "allocpolicy": pods.c.alloc_policy,
}

FOR_ALL, UNTAGGED = "0", "vlan://untagged"
"""What every range of a pod is: not kept to system VMs, and without a VLAN of its own."""

CONTENTS: Mapping[str, Column[Any]] = {
    "clusters": clusters.c.pod_id,
    "hosts": hosts.c.pod_id,
    "address ranges": ip_ranges.c.pod_id,
}
"""What must be gone before a pod is."""


def management_networks(connection: Connection, zone_ids: Iterable[int]) -> list[Mapping[str, Any]]:
    """Return ``id``, ``zone_id``, ``name``, ``gateway`` and ``netmask`` of the zones' pods that have a gateway."""
    pod = pods.c
    rows = connection.execute(
        select(pod.id, pod.zone_id, pod.name, pod.gateway, pod.netmask)
        .where(id_in(pod.zone_id, zone_ids), pod.removed.is_(None), pod.gateway.is_not(None))
        .order_by(pod.id)
    )
    return [dict(row) for row in rows.mappings()]


def list_pods(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of pods, ordered by id."""
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
            pod.alloc_policy.label("allocpolicy"),
            *annotation_columns(Entity.POD),
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
    """Add a pod's IP range to its row in both formats that CloudStack defines.

    Terraform reads the first element of each list, so the lists of a pod without a range contain empty texts.
    """
    start, end = row["startip"] or "", row["endip"] or ""
    facts = {"startip": start, "endip": end, "forsystemvms": FOR_ALL, "vlanid": UNTAGGED}
    row.update({name: [value] for name, value in facts.items()})
    row["ipranges"] = [{**facts, "gateway": row["gateway"], "cidr": _cidr(row)}] if start else []


def _cidr(row: Mapping[str, Any]) -> str:
    return str(IPv4Network(f"{row['gateway']}/{row['netmask']}", strict=False))
