"""Address ranges as CloudStack's calls see them: those of guest networks, and a zone's public ones."""

from ipaddress import IPv4Network

from sqlalchemy import Connection, case, cast, func, literal, select, union_all
from sqlalchemy.dialects.postgresql import INET

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered
from bulkdeploy.store.listing import Page, Paging, fetch_rows
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


def list_ranges(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """One page of address ranges by id."""
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


def overlapped(
    connection: Connection, start: str, end: str, *, network_id: int | None = None, zone_id: int | None = None
) -> tuple[str, str] | None:
    """First and last address of a range, of the network or among the zone's public ones, that shares addresses."""
    one = ip_ranges.c
    place = one.network_id == network_id if zone_id is None else one.zone_id == zone_id
    row = connection.execute(
        select(func.host(one.start_ip), func.host(one.end_ip))
        .where(place, one.removed.is_(None), one.start_ip <= cast(end, INET), one.end_ip >= cast(start, INET))
        .order_by(one.id)
        .limit(1)
    ).first()
    return None if row is None else (row[0], row[1])


def count_addresses(connection: Connection, range_id: int) -> int:
    """Addresses of a range that nics have; with its row held, none is taken or given back."""
    first = select(nics.c.ip_range_id).where(nics.c.ip_range_id == range_id, nics.c.removed.is_(None))
    secondary = select(nic_secondary_ips.c.ip_range_id).where(nic_secondary_ips.c.ip_range_id == range_id)
    used = union_all(first, secondary).subquery()
    return connection.execute(select(func.count()).select_from(used)).scalar_one()


def network_type(connection: Connection, zone_id: int) -> str:
    """Basic or Advanced."""
    return str(connection.execute(select(zones.c.network_type).where(zones.c.id == zone_id)).scalar_one())


def guest_networks(connection: Connection, zone_id: int) -> list[EntityRef]:
    """The zone's guest networks, by id."""
    rows = connection.execute(
        select(networks.c.id, networks.c.uuid, networks.c.name)
        .where(networks.c.zone_id == zone_id, networks.c.removed.is_(None), ~networks.c.is_system)
        .order_by(networks.c.id)
    )
    return [EntityRef(Entity.NETWORK, row.id, row.uuid, row.name) for row in rows]
