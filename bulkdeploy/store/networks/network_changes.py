"""Rows of guest networks: the facts that rules need, inserts, updates and deletes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select, text, update

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.networks.guest_networks import GuestType, Subnet
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.rows.live_rows import Fields, reader
from bulkdeploy.store.tables.networks import ip_ranges, network_offerings, networks, nics, physical_networks
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines

FIELDS: Fields = {
    "name": networks.c.name,
    "displaytext": networks.c.display_text,
    "zoneid": networks.c.zone_id,
    "networkofferingid": networks.c.network_offering_id,
    "physicalnetworkid": networks.c.physical_network_id,
    "acltype": networks.c.acl_type,
    "domainid": networks.c.domain_id,
    "subdomainaccess": networks.c.subdomain_access,
    "gateway": networks.c.gateway,
    "netmask": networks.c.netmask,
    "vlan": networks.c.vlan,
    "networkdomain": networks.c.network_domain,
    "dns1": networks.c.dns1,
    "dns2": networks.c.dns2,
    "publicmtu": networks.c.public_mtu,
    "privatemtu": networks.c.private_mtu,
    "isdefault": networks.c.is_default,
}
CHANGEABLE: Fields = {
    name: FIELDS[name]
    for name in ("name", "displaytext", "networkdomain", "dns1", "dns2", "publicmtu", "privatemtu", "isdefault")
}
"""What updateNetwork and zone files change; an empty DNS server takes away what there was."""

_read_all = reader(Entity.NETWORK, {**FIELDS, "_type": networks.c.guest_type, "_account": networks.c.account_id})
_OWNERS = "SELECT id, name FROM accounts WHERE id = ANY(:ids) AND account_type <> 5"
_FIRST_RANGES = (
    "SELECT DISTINCT ON (network_id) network_id, host(start_ip) AS startip, host(end_ip) AS endip FROM ip_ranges"
    " WHERE network_id = ANY(:ids) AND removed IS NULL ORDER BY network_id, id"
)


def read_networks(connection: Connection) -> list[dict[str, Any]]:
    """Return all networks except those of projects in the format of zone files.

    The first IP range of a Shared network is part of the network.
    """
    rows = _read_all(connection)
    owners = {row.id: row.name for row in connection.execute(text(_OWNERS), {"ids": [r["_account"] for r in rows]})}
    ranges = connection.execute(text(_FIRST_RANGES), {"ids": [row["_id"] for row in rows]}).mappings()
    first = {row["network_id"]: {"startip": row["startip"], "endip": row["endip"]} for row in ranges}
    return [_as_written(row, owners, first) for row in rows if row["_account"] in owners]


def _as_written(
    row: dict[str, Any], owners: Mapping[int, str], first: Mapping[int, Mapping[str, str]]
) -> dict[str, Any]:
    account, guest_type = owners[row.pop("_account")], row.pop("_type")
    if guest_type == GuestType.SHARED and row["gateway"] is not None:
        row.update(first.get(row["_id"], {}))
    if row["acltype"] == "Account":
        row["account"] = account
        del row["subdomainaccess"]
    return row


def zones_with_networks(connection: Connection, zone_ids: Collection[int]) -> set[int]:
    """Return the ids of the zones out of ``zone_ids`` that have live networks."""
    query = select(networks.c.zone_id).where(id_in(networks.c.zone_id, zone_ids), networks.c.removed.is_(None))
    return set(connection.execute(query.distinct()).scalars())


@dataclass(frozen=True, slots=True)
class OfferingFacts:
    """The properties of a network offering that the rules for networks use."""

    id: int
    name: str
    guest_type: str
    specify_vlan: bool
    usable: bool
    services: tuple[str, ...]
    domain_ids: frozenset[int]
    zone_ids: frozenset[int]
    tags: str | None


def read_offerings(connection: Connection, offering_ids: Collection[int]) -> dict[int, OfferingFacts]:
    """Return network offerings by internal id.

    ``usable`` means that the offering is enabled, is for guest networks, and was not deleted.
    """
    rows = connection.execute(select(network_offerings).where(id_in(network_offerings.c.id, offering_ids)))
    return {
        row.id: OfferingFacts(
            row.id,
            row.name,
            row.guest_type,
            row.specify_vlan,
            row.removed is None and row.state == "Enabled" and row.traffic_type == "Guest",
            tuple(row.services),
            frozenset(row.domain_ids),
            frozenset(row.zone_ids),
            row.tags,
        )
        for row in rows
    }


def required_offering(connection: Connection) -> EntityRef | None:
    """Return the enabled offering of isolated networks with availability Required, or None if there is none."""
    offering = network_offerings.c
    query = select(offering.id, offering.uuid, offering.name).where(
        offering.availability == "Required",
        offering.guest_type == "Isolated",
        offering.state == "Enabled",
        offering.removed.is_(None),
    )
    row = connection.execute(query.order_by(offering.id).limit(1)).one_or_none()
    return None if row is None else EntityRef(Entity.NETWORK_OFFERING, row.id, row.uuid, row.name)


def has_isolated_network(connection: Connection, account_id: int, zone_id: int) -> bool:
    """Return whether an account has a live isolated network in a zone."""
    network = networks.c
    query = select(network.id).where(
        network.account_id == account_id,
        network.zone_id == zone_id,
        network.guest_type == "Isolated",
        network.removed.is_(None),
    )
    return connection.execute(query.limit(1)).first() is not None


def owner_and_offering(connection: Connection, network_id: int) -> tuple[int, int]:
    """Return the internal ids of the account that owns a network and of the network's offering."""
    network = networks.c
    row = connection.execute(
        select(network.account_id, network.network_offering_id).where(network.id == network_id)
    )
    account_id, offering_id = row.one()
    return account_id, offering_id


def keep_zones(connection: Connection, zone_ids: Collection[int]) -> dict[int, Row[Any]]:
    """Return live zones by internal id, and lock their rows against changes until the transaction ends."""
    query = select(zones).where(id_in(zones.c.id, zone_ids), zones.c.removed.is_(None)).order_by(zones.c.id)
    return {row.id: row for row in connection.execute(query.with_for_update(read=True))}


def lock_physical_networks(
    connection: Connection, zone_ids: Collection[int], wanted_ids: Collection[int]
) -> list[Row[Any]]:
    """Lock and return the enabled or requested physical networks of zones, ordered by id.

    The lock ensures that each VLAN is assigned only once.
    """
    physical = physical_networks.c
    query = select(physical_networks).where(
        id_in(physical.zone_id, zone_ids),
        physical.removed.is_(None),
        (physical.state == "Enabled") | id_in(physical.id, wanted_ids),
    )
    return list(connection.execute(query.order_by(physical.id).with_for_update()))


def vlans_in_use(connection: Connection, zone_ids: Collection[int]) -> dict[tuple[int, int | None], dict[str, str]]:
    """Return the names of live networks by their VLAN, for each pair of zone and physical network."""
    network = networks.c
    query = select(network.zone_id, network.physical_network_id, network.vlan, network.name).where(
        id_in(network.zone_id, zone_ids), network.removed.is_(None), network.vlan.is_not(None)
    )
    found: dict[tuple[int, int | None], dict[str, str]] = {}
    for row in connection.execute(query):
        found.setdefault((row.zone_id, row.physical_network_id), {})[row.vlan] = row.name
    return found


def vlan_owners(connection: Connection, physical_network_id: int) -> set[tuple[int, int]]:
    """Return pairs of the VLAN and the account of live networks of a physical network.

    Several networks have the same VLAN if they were created with ``bypassvlanoverlapcheck``.
    """
    network = networks.c
    query = select(network.vlan, network.account_id).where(
        network.physical_network_id == physical_network_id, network.removed.is_(None), network.vlan.is_not(None)
    )
    return {(int(vlan), account_id) for vlan, account_id in connection.execute(query) if vlan.isdecimal()}


def range_of(network_id: int, subnet: Subnet) -> dict[str, Any]:
    """Return the row of the IP range from which a new network assigns addresses."""
    return {
        "network_id": network_id,
        "start_ip": subnet.start_ip,
        "end_ip": subnet.end_ip,
        "next_ip": subnet.start_ip,
        "gateway": subnet.gateway,
        "netmask": subnet.netmask,
    }


def users_of(connection: Connection, network_ids: Collection[int]) -> dict[int, str]:
    """Return, for each network in use, a text that names a VM with a NIC in it.

    A destroyed VM keeps its NICs until it is expunged.
    """
    vm = virtual_machines.c
    first = (
        select(nics.c.network_id, func.min(nics.c.vm_id).label("vm_id"))
        .where(id_in(nics.c.network_id, network_ids), nics.c.removed.is_(None))
        .group_by(nics.c.network_id)
        .subquery()
    )
    query = select(first.c.network_id, vm.uuid, vm.state).join(first, first.c.vm_id == vm.id)
    return {
        row.network_id: f"virtual machine {row.uuid} ({row.state}) has a nic in it"
        for row in connection.execute(query)
    }


def remove_ranges(connection: Connection, network_ids: Collection[int]) -> None:
    """Mark the IP ranges of networks as removed, after waiting for transactions that assign their addresses."""
    ranges = ip_ranges.c
    live = (id_in(ranges.network_id, network_ids), ranges.removed.is_(None))
    connection.execute(select(ranges.id).where(*live).order_by(ranges.id).with_for_update())
    connection.execute(update(ip_ranges).where(*live).values(removed=func.now()))


def keep_networks(connection: Connection, network_ids: Sequence[int]) -> None:
    """Lock these networks, so that they cannot be deleted until the transaction ends.

    Raises:
        TransactionConflict: a network was deleted since the caller read it.
    """
    kept = connection.execute(
        text("SELECT id FROM networks WHERE id = ANY(:ids) AND removed IS NULL ORDER BY id FOR SHARE"),
        {"ids": list(network_ids)},
    ).all()
    if len(kept) != len(set(network_ids)):
        raise TransactionConflict
