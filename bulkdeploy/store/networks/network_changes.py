"""Guest networks made, changed and deleted: what the rules need to know, and the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, insert, or_, select, text, update

from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.guest_networks import GuestType, Subnet
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.live_rows import Fields, reader
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
    """All networks but those of projects, as zone files say it; a Shared one's first range is part of it."""
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


def has_network(connection: Connection, zone_id: int) -> bool:
    """Whether there is a live network in a zone."""
    query = select(networks.c.id).where(networks.c.zone_id == zone_id, networks.c.removed.is_(None))
    return connection.execute(query.limit(1)).first() is not None


@dataclass(frozen=True, slots=True)
class OfferingFacts:
    """A network offering as the rules see it."""

    id: int
    name: str
    guest_type: str
    specify_vlan: bool
    usable: bool
    services: tuple[str, ...]


def read_offering(connection: Connection, offering_id: int) -> OfferingFacts:
    """A network offering; ``usable``: enabled, for guests, and not deleted."""
    offering = network_offerings.c
    row = connection.execute(select(network_offerings).where(offering.id == offering_id)).one()
    usable = row.removed is None and row.state == "Enabled" and row.traffic_type == "Guest"
    return OfferingFacts(row.id, row.name, row.guest_type, row.specify_vlan, usable, tuple(row.services))


def owner_and_offering(connection: Connection, network_id: int) -> tuple[int, int]:
    """The account that has a network, and its offering; internal ids."""
    network = networks.c
    row = connection.execute(
        select(network.account_id, network.network_offering_id).where(network.id == network_id)
    )
    account_id, offering_id = row.one()
    return account_id, offering_id


def keep_zone(connection: Connection, zone_id: int) -> Row[Any] | None:
    """A zone that nobody deletes or changes before the transaction ends; None: it was deleted."""
    query = select(zones).where(zones.c.id == zone_id, zones.c.removed.is_(None))
    return connection.execute(query.with_for_update(read=True)).first()


def lock_physical_network(connection: Connection, zone_id: int, wanted_id: int | None) -> Row[Any] | None:
    """The physical network asked for, or the zone's first enabled one; locked, so that a VLAN is given once."""
    physical = physical_networks.c
    query = select(physical_networks).where(physical.zone_id == zone_id, physical.removed.is_(None))
    query = query.where(physical.state == "Enabled" if wanted_id is None else physical.id == wanted_id)
    return connection.execute(query.order_by(physical.id).limit(1).with_for_update()).first()


def vlans_in_use(connection: Connection, zone_id: int, physical_network_id: int | None) -> dict[str, str]:
    """Names of live networks by their VLAN: those of the physical network, or of the zone where there is none."""
    network = networks.c
    same = or_(network.physical_network_id == physical_network_id, network.physical_network_id.is_(None))
    query = select(network.vlan, network.name).where(
        network.zone_id == zone_id, network.removed.is_(None), network.vlan.is_not(None), same
    )
    return {row.vlan: row.name for row in connection.execute(query)}


def insert_range(connection: Connection, network_id: int, subnet: Subnet) -> None:
    """Write the addresses that a network hands out."""
    connection.execute(
        insert(ip_ranges).values(
            network_id=network_id,
            start_ip=subnet.start_ip,
            end_ip=subnet.end_ip,
            next_ip=subnet.start_ip,
            gateway=subnet.gateway,
            netmask=subnet.netmask,
        )
    )


def update_network(connection: Connection, network_id: int, values: Mapping[str, Any]) -> None:
    """Change columns of a network, whose row the caller holds."""
    connection.execute(update(networks).where(networks.c.id == network_id).values(**values))


def user_of(connection: Connection, network_id: int) -> str | None:
    """A VM with a nic in the network, in words, or None; a destroyed VM has its nics until it is expunged."""
    vm = virtual_machines.c
    query = (
        select(vm.uuid, vm.state)
        .join(nics, nics.c.vm_id == vm.id)
        .where(nics.c.network_id == network_id, nics.c.removed.is_(None))
    )
    row = connection.execute(query.order_by(vm.id).limit(1)).first()
    return None if row is None else f"virtual machine {row.uuid} ({row.state}) has a nic in it"


def remove_ranges(connection: Connection, network_id: int) -> None:
    """Mark the network's address ranges deleted, once nobody takes addresses from them."""
    ranges = ip_ranges.c
    live = select(ranges.id).where(ranges.network_id == network_id, ranges.removed.is_(None))
    connection.execute(live.order_by(ranges.id).with_for_update())
    gone = update(ip_ranges).where(ranges.network_id == network_id, ranges.removed.is_(None))
    connection.execute(gone.values(removed=func.now()))


def keep_networks(connection: Connection, network_ids: Sequence[int]) -> None:
    """Nobody deletes these networks before the transaction ends.

    Raises:
        TransactionConflict: one was deleted since it was looked up.
    """
    kept = connection.execute(
        text("SELECT id FROM networks WHERE id = ANY(:ids) AND removed IS NULL ORDER BY id FOR SHARE"),
        {"ids": list(network_ids)},
    ).all()
    if len(kept) != len(set(network_ids)):
        raise TransactionConflict
