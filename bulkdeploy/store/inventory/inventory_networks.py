"""Writing the networks of an inventory with their address ranges, and settings."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select, text

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.inventory import Zone
from bulkdeploy.domain.inventory_catalog import Network
from bulkdeploy.domain.inventory_owners import AccountName
from bulkdeploy.store.inventory.inventory_staging import Changes, FixedColumn, InventoryConflict, Upsert, merge
from bulkdeploy.store.tables.jobs import configuration_values
from bulkdeploy.store.tables.networks import ip_ranges, network_offerings, networks, physical_networks

PHYSICAL_NETWORKS = Upsert(physical_networks, ("zone_id", "name"))
NETWORKS = Upsert(networks, ("zone_id", "name"), fixed=("guest_type", "account_id"))
NETWORK_COLUMNS = (
    "name",
    "display_text",
    "acl_type",
    "subdomain_access",
    "cidr",
    "gateway",
    "netmask",
    "vlan",
    "network_domain",
    "is_default",
)
"""Columns of a network that are fields of its description."""

RANGES = Upsert(ip_ranges, ("network_id", "start_ip"), once=("next_ip",))


def write_networks(
    connection: Connection,
    zone: Zone,
    zone_id: int,
    described: Sequence[Network],
    account_ids: Mapping[AccountName, int],
    domain_ids: Mapping[str, int],
    changes: Changes,
) -> dict[str, int]:
    """Physical and guest networks; ids of the guest networks by name.

    Raises:
        InventoryConflict: a network offering does not exist, or a network would change its kind or owner.
    """
    physical = _write_physical_networks(connection, zone, zone_id, changes)
    offerings = _offerings(connection, described)
    rows = [
        {
            "zone_id": zone_id,
            "physical_network_id": None if one.physical_network is None else physical[one.physical_network],
            "network_offering_id": offerings[one.offering][0],
            "guest_type": offerings[one.offering][1],
            "account_id": account_ids[one.owner],
            "domain_id": domain_ids[one.domain],
            **{column: getattr(one, column) for column in NETWORK_COLUMNS},
        }
        for one in described
    ]
    try:
        ids = NETWORKS.write(connection, rows, changes, "networks")
    except FixedColumn as fixed:
        key = {"guest_type": "offering", "account_id": "account"}[fixed.column]
        rule = f"{key}: the network exists with another {key}, and networks do not change it"
        raise InventoryConflict(described[fixed.position].where, rule) from fixed
    return dict(zip((one.name for one in described), ids, strict=True))


def _write_physical_networks(connection: Connection, zone: Zone, zone_id: int, changes: Changes) -> dict[str, int]:
    """Ids of the physical networks by name."""
    rows = [
        {
            "zone_id": zone_id,
            "name": one.name,
            "isolation_methods": one.isolation_methods,
            "vlan_range": one.vlan_range,
        }
        for one in zone.physical_networks
    ]
    ids = PHYSICAL_NETWORKS.write(connection, rows, changes, "physical networks")
    return dict(zip((one.name for one in zone.physical_networks), ids, strict=True))


def _offerings(connection: Connection, described: Sequence[Network]) -> dict[str, tuple[int, str]]:
    """Ids and guest types of the network offerings by name."""
    found = {
        row.name: (row.id, row.guest_type)
        for row in connection.execute(
            select(network_offerings.c.name, network_offerings.c.id, network_offerings.c.guest_type)
            .where(network_offerings.c.removed.is_(None))
            .order_by(network_offerings.c.id.desc())
        )
    }
    for one in described:
        if one.offering not in found:
            rule = f"offering: there is no network offering {one.offering!r}; there are {', '.join(sorted(found))}"
            raise InventoryConflict(one.where, rule)
    return found


def write_ranges(
    connection: Connection,
    described: Sequence[Network],
    network_ids: Mapping[str, int],
    pod_ids: Mapping[str, int],
    changes: Changes,
) -> None:
    """The address ranges; the cursor of one that exists stays where it is.

    Raises:
        InventoryConflict: a range overlaps one that the database has and the file does not describe.
    """
    ranges = [(one, found) for one in described for found in one.ranges]
    rows = [
        {
            "network_id": network_ids[network.name],
            "pod_id": None if found.pod is None else pod_ids[found.pod],
            "start_ip": found.start_ip,
            "end_ip": found.end_ip,
            "next_ip": found.start_ip,
            "gateway": found.gateway,
            "netmask": found.netmask,
            "vlan": found.vlan,
        }
        for network, found in ranges
    ]
    ids = RANGES.write(connection, rows, changes, "address ranges")
    overlap = connection.execute(
        text(
            "SELECT a.id, host(b.start_ip) AS start_ip, host(b.end_ip) AS end_ip FROM ip_ranges a JOIN ip_ranges b"
            " ON b.network_id = a.network_id AND b.id <> a.id AND b.start_ip <= a.end_ip AND a.start_ip <= b.end_ip"
            " WHERE a.id = ANY(:ids) AND b.removed IS NULL ORDER BY a.id LIMIT 1"
        ),
        {"ids": ids},
    ).first()
    if overlap is not None:
        rule = f"the network has a range from {overlap.start_ip} to {overlap.end_ip}, which this one overlaps"
        raise InventoryConflict(ranges[ids.index(overlap.id)][1].where, rule)


def write_settings(
    connection: Connection, given: Sequence[tuple[Scope, int, Mapping[str, str]]], changes: Changes
) -> None:
    """Overrides of settings: scope, id in it (0: global), values by name."""
    rows = [
        {"scope": scope, "scope_id": scope_id, "name": setting, "value": value}
        for scope, scope_id, values in given
        for setting, value in values.items()
    ]
    merge(connection, configuration_values, rows, changes, "settings")
