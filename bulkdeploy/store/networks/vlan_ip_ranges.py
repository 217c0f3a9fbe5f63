"""Address ranges in the format of CloudStack's calls: ranges of guest networks and public ranges of zones."""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from sqlalchemy import Connection, case, func, literal, select, text, union_all

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, id_in
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.tables.networks import ip_ranges, networks, nic_secondary_ips, nics, physical_networks
from bulkdeploy.store.tables.topology import pods, zones

UNTAGGED = "untagged"
ZONE_ID = func.coalesce(ip_ranges.c.zone_id, networks.c.zone_id)
PHYSICAL_NETWORK_ID = func.coalesce(ip_ranges.c.physical_network_id, networks.c.physical_network_id)

FILTERS: Filters = {
    "id": by_id(ip_ranges.c.id),
    "zoneid": by_id(ZONE_ID),
    "networkid": by_id(ip_ranges.c.network_id),
    "podid": by_id(ip_ranges.c.pod_id),
    "physicalnetworkid": by_id(PHYSICAL_NETWORK_ID),
    "vlan": lambda value: func.coalesce(ip_ranges.c.vlan, UNTAGGED) == value.lower().removeprefix("vlan://"),
    "forvirtualnetwork": lambda value: ip_ranges.c.network_id.is_(None) == value,
    "keyword": lambda value: func.host(ip_ranges.c.start_ip).contains(value, autoescape=True),
}


_READ = text(
    "SELECT r.id AS _id, r.uuid AS _uuid, coalesce(r.zone_id, n.zone_id) AS zoneid, r.network_id AS networkid,"
    " r.pod_id AS podid, host(r.start_ip) AS startip, host(r.end_ip) AS endip, r.gateway, r.netmask, r.vlan,"
    " r.physical_network_id AS physicalnetworkid, r.network_id IS NULL AS forvirtualnetwork,"
    " n.gateway IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ip_ranges f WHERE f.network_id = n.id"
    "  AND f.removed IS NULL AND f.id < r.id) AS _is_of_network"
    " FROM ip_ranges r LEFT JOIN networks n ON n.id = r.network_id"
    " WHERE r.removed IS NULL AND (r.network_id IS NULL OR n.guest_type = 'Shared')"
    " ORDER BY r.id"
)


def read_ranges(connection: Connection) -> list[dict[str, Any]]:
    """Return all IP ranges of Shared networks and all public ranges.

    ``_is_of_network`` tells whether a range is the first one of its network.
    """
    rows = [dict(row) for row in connection.execute(_READ).mappings()]
    for row in rows:
        if not row["forvirtualnetwork"]:
            del row["physicalnetworkid"]  # the network's
    return rows


def list_ranges(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of address ranges by id."""
    one = ip_ranges.c
    query = (
        select(
            one.uuid.label("id"),
            func.host(one.start_ip).label("startip"),
            func.host(one.end_ip).label("endip"),
            one.gateway,
            one.netmask,
            (literal("vlan://") + func.coalesce(one.vlan, UNTAGGED)).label("vlan"),
            case((one.network_id.is_(None), True), else_=False).label("forvirtualnetwork"),
            zones.c.uuid.label("zoneid"),
            networks.c.uuid.label("networkid"),
            physical_networks.c.uuid.label("physicalnetworkid"),
            pods.c.uuid.label("podid"),
            pods.c.name.label("podname"),
        )
        .select_from(
            ip_ranges.outerjoin(networks, networks.c.id == one.network_id)
            .join(zones, zones.c.id == ZONE_ID)
            .outerjoin(physical_networks, physical_networks.c.id == PHYSICAL_NETWORK_ID)
            .outerjoin(pods, pods.c.id == one.pod_id)
        )
        .where(one.removed.is_(None))
        .order_by(one.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        row["cidr"] = str(IPv4Network(f"{row['gateway']}/{row['netmask']}", strict=False))
    return Page(rows, count)


def ranges_of(
    connection: Connection, network_ids: Collection[int], zone_ids: Collection[int]
) -> dict[tuple[int | None, int | None], list[tuple[IPv4Address, IPv4Address]]]:
    """Return the first and last addresses of IP ranges of networks and of public ranges of zones, oldest first.

    The key is a pair of network id and zone id, one of which is None.
    """
    one = ip_ranges.c
    place = id_in(one.network_id, network_ids) | id_in(one.zone_id, zone_ids)
    query = select(one.network_id, one.zone_id, func.host(one.start_ip), func.host(one.end_ip))
    found: dict[tuple[int | None, int | None], list[tuple[IPv4Address, IPv4Address]]] = {}
    for network_id, zone_id, start, end in connection.execute(
        query.where(place, one.removed.is_(None)).order_by(one.id)
    ):
        found.setdefault((network_id, zone_id), []).append((IPv4Address(start), IPv4Address(end)))
    return found


def count_addresses(connection: Connection, range_ids: Collection[int]) -> dict[int, int]:
    """Count the addresses of each range that NICs use, by range id. Unused ranges are omitted.

    While the caller has locked the rows of the ranges, the counts do not change.
    """
    first = select(nics.c.ip_range_id).where(id_in(nics.c.ip_range_id, range_ids), nics.c.removed.is_(None))
    secondary = select(nic_secondary_ips.c.ip_range_id).where(id_in(nic_secondary_ips.c.ip_range_id, range_ids))
    used = union_all(first, secondary).subquery()
    query = select(used.c.ip_range_id, func.count()).group_by(used.c.ip_range_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def network_types(connection: Connection, zone_ids: Collection[int]) -> dict[int, str]:
    """Return the network type, Basic or Advanced, by zone."""
    query = select(zones.c.id, zones.c.network_type).where(id_in(zones.c.id, zone_ids))
    return {row.id: row.network_type for row in connection.execute(query)}


def guest_networks(connection: Connection, zone_ids: Collection[int]) -> dict[int, list[EntityRef]]:
    """Return the guest networks of each zone, ordered by id, by zone id."""
    rows = connection.execute(
        select(networks.c.zone_id, networks.c.id, networks.c.uuid, networks.c.name)
        .where(id_in(networks.c.zone_id, zone_ids), networks.c.removed.is_(None), ~networks.c.is_system)
        .order_by(networks.c.id)
    )
    found: dict[int, list[EntityRef]] = {}
    for row in rows:
        found.setdefault(row.zone_id, []).append(EntityRef(Entity.NETWORK, row.id, row.uuid, row.name))
    return found
