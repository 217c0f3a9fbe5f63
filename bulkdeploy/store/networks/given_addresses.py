"""Addresses that an upstream cloud assigned to NICs.

The addresses in our rows are changed to those of the cloud.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.store.ledger.addresses import lock_ranges, take_mac_addresses


@dataclass(frozen=True, slots=True)
class GivenAddress:
    """An address that an upstream cloud assigned to a NIC.

    ``nic_id`` is None if the NIC has no row yet. ``ip`` is None if the NIC has no IPv4 address.
    """

    nic_id: int | None
    network_id: int
    mac: str
    ip: str | None
    gateway: str | None = None
    netmask: str | None = None


@dataclass(frozen=True, slots=True)
class KeptAddress:
    """An IP address that a VM outside the cloud uses although the cloud assigned it to one of its own VMs."""

    network_id: int
    ip: str
    vm_name: str


_HOLDERS = text(
    "SELECT n.id, n.network_id, host(n.ip_address) AS ip, n.mac_address AS mac, v.name, v.hypervisor"
    " FROM nics n JOIN virtual_machines v ON v.id = n.vm_id"
    " WHERE n.removed IS NULL AND (n.mac_address = ANY(:macs) OR (n.network_id, n.ip_address) IN ("
    "   SELECT * FROM unnest(CAST(:networks AS bigint[]), CAST(:ips AS inet[]))))"
)

_FREE_ADDRESSES = text(
    "WITH held AS (SELECT id, ip_range_id, ip_address FROM nics WHERE id = ANY(:nics)),"
    " freed AS (UPDATE nics SET ip_address = NULL, ip_range_id = NULL WHERE id = ANY(:nics))"
    " INSERT INTO released_addresses (ip_range_id, ip_address) SELECT h.ip_range_id, h.ip_address"
    " FROM held h JOIN ip_ranges r ON r.id = h.ip_range_id"
    " WHERE h.ip_address IS NOT NULL AND h.ip_address < r.next_ip ON CONFLICT DO NOTHING"
)

_SET_MACS = text(
    "UPDATE nics n SET mac_address = g.mac"
    " FROM unnest(CAST(:nics AS bigint[]), CAST(:macs AS text[])) AS g (id, mac) WHERE n.id = g.id"
)

_SET_ADDRESSES = text(
    "UPDATE nics n SET ip_address = g.ip, mac_address = g.mac, gateway = g.gateway, netmask = g.netmask,"
    " ip_range_id = (SELECT min(r.id) FROM ip_ranges r WHERE r.network_id = n.network_id AND r.removed IS NULL"
    "   AND g.ip BETWEEN r.start_ip AND r.end_ip)"
    " FROM unnest(CAST(:nics AS bigint[]), CAST(:ips AS inet[]), CAST(:macs AS text[]), CAST(:gateways AS text[]),"
    "   CAST(:netmasks AS text[])) AS g (id, ip, mac, gateway, netmask) WHERE n.id = g.id"
)

_TAKE_RELEASED = text(
    "DELETE FROM released_addresses f USING ip_ranges r,"
    " unnest(CAST(:networks AS bigint[]), CAST(:ips AS inet[])) AS g (network_id, ip)"
    " WHERE f.ip_range_id = r.id AND r.network_id = g.network_id AND f.ip_address = g.ip"
)


def free_given_addresses(
    connection: Connection, given: Sequence[GivenAddress], is_of_cloud: Callable[[str], bool]
) -> list[KeptAddress]:
    """Remove the addresses that a cloud assigned to its NICs from all other NICs of the cloud's VMs.

    A NIC that loses its IP address has none until the cloud assigns another one. A NIC that loses its MAC address
    gets a new one. NICs of VMs outside the cloud keep their IP addresses.

    Args:
        connection: has an open transaction, which locks the address ranges of all networks.
        given: the addresses that the cloud assigned.
        is_of_cloud: tells whether VMs of a hypervisor type run in the cloud.

    Returns:
        The IP addresses that VMs outside the cloud keep.
    """
    lock_ranges(connection, [one.network_id for one in given])
    holders = connection.execute(_HOLDERS, _named(given) | {"macs": [one.mac for one in given]}).all()
    by_nic = {one.nic_id: one for one in given if one.nic_id is not None}
    given_ips, given_macs = {(one.network_id, one.ip) for one in given}, {one.mac for one in given}
    losing_ip: list[int] = []
    losing_mac: list[int] = []
    kept: list[KeptAddress] = []
    for row in holders:
        own = by_nic.get(row.id)
        if (row.network_id, row.ip) in given_ips and (own is None or own.ip != row.ip):
            if own is None and not is_of_cloud(row.hypervisor):
                kept.append(KeptAddress(row.network_id, row.ip, row.name))
            else:
                losing_ip.append(row.id)
        if row.mac in given_macs and (own is None or own.mac != row.mac):
            losing_mac.append(row.id)
    if losing_ip:
        connection.execute(_FREE_ADDRESSES, {"nics": losing_ip})
    if losing_mac:
        fresh = take_mac_addresses(connection, len(losing_mac))
        connection.execute(_SET_MACS, {"nics": losing_mac, "macs": fresh})
    connection.execute(_TAKE_RELEASED, _named(given))
    return kept


def write_given_addresses(
    connection: Connection, given: Sequence[GivenAddress], is_of_cloud: Callable[[str], bool]
) -> list[KeptAddress]:
    """Write the addresses that a cloud assigned to NICs with rows, after ``free_given_addresses``.

    If a VM outside the cloud keeps an IP address, the cloud's NIC gets none.
    """
    if not given:
        return []
    kept = free_given_addresses(connection, given, is_of_cloud)
    left = without_kept(given, kept)
    ids = [one.nic_id for one in left]
    connection.execute(_FREE_ADDRESSES, {"nics": ids})
    connection.execute(
        _SET_ADDRESSES,
        {
            "nics": ids,
            "ips": [one.ip for one in left],
            "macs": [one.mac for one in left],
            "gateways": [one.gateway for one in left],
            "netmasks": [one.netmask for one in left],
        },
    )
    connection.execute(_TAKE_RELEASED, _named(left))
    return kept


def without_kept(given: Sequence[GivenAddress], kept: Collection[KeptAddress]) -> list[GivenAddress]:
    """Return the assigned addresses without the IP addresses that VMs outside the cloud keep."""
    outside = {(one.network_id, one.ip) for one in kept}
    return [replace(one, ip=None) if (one.network_id, one.ip) in outside else one for one in given]


def nics_of(connection: Connection, vm_uuid: UUID) -> Sequence[Row[Any]]:
    """Return the live NICs of a VM in device order.

    The columns are id, network_id, network_uuid, ip and mac.
    """
    query = text(
        "SELECT n.id, n.network_id, w.uuid AS network_uuid, host(n.ip_address) AS ip, n.mac_address AS mac"
        " FROM nics n JOIN virtual_machines v ON v.id = n.vm_id JOIN networks w ON w.id = n.network_id"
        " WHERE v.uuid = :vm AND n.removed IS NULL ORDER BY n.device_id"
    )
    return connection.execute(query, {"vm": vm_uuid}).all()


def _named(given: Sequence[GivenAddress]) -> dict[str, list[Any]]:
    with_ip = [one for one in given if one.ip is not None]
    return {"networks": [one.network_id for one in with_ip], "ips": [one.ip for one in with_ip]}
