"""IP and MAC addresses of guests, assigned in a time that does not depend on the number of used addresses.

Each range has a cursor that only moves up, and a list of released addresses below the cursor. A batch first gets
released addresses, then a block from the cursor on. Addresses above the cursor that were assigned by request are
skipped. The row lock on the range serialises assignments, and the unique index on live NICs is the final check.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from socket import inet_ntoa
from typing import NamedTuple

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.errors import InsufficientAddresses
from bulkdeploy.domain.networks.addresses import GENERATED_MACS

MAC_PREFIX = int(GENERATED_MACS.removesuffix(":"), 16) << 40


_OF_NICS = (
    "SELECT network_id, ip_address FROM nics WHERE removed IS NULL"
    " UNION ALL SELECT network_id, ip_address FROM nic_secondary_ips"
)
OF_NICS = f"({_OF_NICS})"
"""First and secondary addresses of live nics, for statements."""

IN_USE = f"({_OF_NICS} UNION ALL SELECT network_id, ip_address FROM unmanaged_addresses)"  # noqa: S608 - ours
"""Those, and the addresses of guests that no row owns. The latter stay among released addresses, and are passed
over: so nothing has to be written when such a guest is gone or adopted."""


_FREE = text(
    f"WITH taken AS (SELECT network_id, ip_address FROM {IN_USE} used WHERE network_id = :network"  # noqa: S608 - ours
    "   UNION SELECT network_id, CAST(gateway AS inet) FROM ip_ranges WHERE network_id = :network)"
    " SELECT r.pod_id, sum(greatest(CAST(r.end_ip - r.next_ip AS bigint) + 1, 0)"
    "   + (SELECT count(*) FROM released_addresses a WHERE a.ip_range_id = r.id"
    "       AND a.ip_address NOT IN (SELECT ip_address FROM taken WHERE ip_address IS NOT NULL))"
    "   - (SELECT count(*) FROM taken WHERE ip_address BETWEEN r.next_ip AND r.end_ip)) AS free"
    " FROM ip_ranges r WHERE r.network_id = :network AND r.removed IS NULL GROUP BY r.pod_id"
)
"""Above a range's cursor what is neither in use nor the gateway, and below it what was given back."""


class Address(NamedTuple):
    """A guest address with the range from which it was taken."""

    range_id: int
    ip: str
    gateway: str
    netmask: str


def take_addresses(
    connection: Connection, network_id: int, network_name: str, pod_ids: Sequence[int | None]
) -> list[Address]:
    """Assign one free address per VM, in order. ``pod_ids`` has the pod of each VM, or None if it has no host.

    Ranges that belong to a pod serve only the VMs of that pod (Basic zones); other ranges serve all VMs. If all
    ranges belong to pods, a VM without a host gets an address of the pod with the most free addresses, which binds
    the VM to that pod.

    Raises:
        InsufficientAddresses: the network has too few free addresses for all VMs. The caller rolls back.
    """
    ranges = connection.execute(
        text(
            "SELECT id, pod_id, host(next_ip) AS next_ip, host(end_ip) AS end_ip, gateway, netmask FROM ip_ranges"
            " WHERE network_id = :network AND removed IS NULL ORDER BY id FOR UPDATE"
        ),
        {"network": network_id},
    ).all()
    with_pod = {row.pod_id for row in ranges if row.pod_id is not None}
    wanted: dict[int | None, int] = {}
    keys = [pod if pod in with_pod else None for pod in pod_ids]
    for key in keys:
        wanted[key] = wanted.get(key, 0) + 1
    taken: dict[int | None, Iterator[Address]] = {}
    for key, count in wanted.items():
        usable = [row for row in ranges if row.pod_id == key]
        if key is None and not usable:
            usable = sorted(ranges, key=_remaining_addresses, reverse=True)
        found = _take(connection, network_id, usable, count)
        if len(found) < count:
            raise InsufficientAddresses(network_name, count, len(found))
        taken[key] = iter(found)
    return [next(taken[key]) for key in keys]


def free_addresses(connection: Connection, network_id: int) -> dict[int | None, int]:
    """Count the free addresses of a network by the pod that its ranges serve; the key None is for all pods.

    This function locks nothing.
    """
    rows = connection.execute(_FREE, {"network": network_id})
    return {row.pod_id: int(row.free) for row in rows}


def missing_addresses(free: Mapping[int | None, int], pod_ids: Sequence[int]) -> int:
    """Return how many VMs would get no address, out of the free addresses per pod.

    ``pod_ids`` has each VM's pod.
    """
    wanted = Counter(pod if pod in free else None for pod in pod_ids)
    return sum(max(count - free.get(pod, 0), 0) for pod, count in wanted.items())


def _remaining_addresses(row: Row[tuple[object, ...]]) -> int:
    """Return how many addresses a range has above its cursor."""
    return int(IPv4Address(row.end_ip)) - int(IPv4Address(row.next_ip))


def _take(
    connection: Connection, network_id: int, ranges: Sequence[Row[tuple[object, ...]]], count: int
) -> list[Address]:
    found: list[Address] = []
    for row in ranges:
        if len(found) == count:
            break
        ips = _take_released(connection, network_id, row.id, count - len(found))
        if len(found) + len(ips) < count:
            ips += _take_from_cursor(connection, network_id, row, count - len(found) - len(ips))
        found += [Address(row.id, ip, row.gateway, row.netmask) for ip in ips]
    return found


def _take_released(connection: Connection, network_id: int, range_id: int, count: int) -> list[str]:
    """Assign up to ``count`` released addresses, lowest first. Addresses that are in use are skipped."""
    rows = connection.execute(
        text(
            "DELETE FROM released_addresses WHERE ip_range_id = :range AND ip_address IN ("  # noqa: S608 - ours
            " SELECT ip_address FROM released_addresses f WHERE ip_range_id = :range AND NOT EXISTS ("
            f"  SELECT FROM {IN_USE} used WHERE used.network_id = :network AND used.ip_address = f.ip_address)"
            " ORDER BY 1 LIMIT :count) RETURNING host(ip_address)"
        ),
        {"network": network_id, "range": range_id, "count": count},
    )
    return sorted(rows.scalars(), key=lambda ip: int(IPv4Address(ip)))


def _take_from_cursor(
    connection: Connection, network_id: int, row: Row[tuple[object, ...]], count: int
) -> list[str]:
    """Assign up to ``count`` addresses from the range's cursor on, and move the cursor behind them."""
    cursor, end = int(IPv4Address(row.next_ip)), int(IPv4Address(row.end_ip))
    gateway = int(IPv4Address(row.gateway))
    ips: list[str] = []
    while len(ips) < count and cursor <= end:
        last = min(end, cursor + count - len(ips) - 1)
        used = set(
            connection.execute(
                text(
                    f"SELECT host(ip_address) FROM {IN_USE} used WHERE network_id = :network"  # noqa: S608 - ours
                    " AND ip_address BETWEEN CAST(:first AS inet) AND CAST(:last AS inet)"
                ),
                {"network": network_id, "first": str(IPv4Address(cursor)), "last": str(IPv4Address(last))},
            ).scalars()
        )
        block = (inet_ntoa(number.to_bytes(4)) for number in range(cursor, last + 1) if number != gateway)
        ips += [ip for ip in block if ip not in used]
        cursor = last + 1
    connection.execute(_MOVE_CURSOR, {"range": row.id, "next": str(IPv4Address(cursor)), "network": network_id})
    return ips


_MOVE_CURSOR = text(
    "WITH passed AS (INSERT INTO released_addresses (ip_range_id, ip_address)"  # noqa: S608 - ours
    "   SELECT r.id, u.ip_address FROM ip_ranges r JOIN unmanaged_addresses u ON u.network_id = :network"
    "   AND u.ip_address >= r.next_ip AND u.ip_address < CAST(:next AS inet)"
    "   AND u.ip_address <> CAST(r.gateway AS inet)"
    f"   WHERE r.id = :range AND NOT EXISTS (SELECT FROM {OF_NICS} used WHERE used.network_id = :network"
    "     AND used.ip_address = u.ip_address) ON CONFLICT DO NOTHING)"
    " UPDATE ip_ranges SET next_ip = CAST(:next AS inet) WHERE id = :range"
)
"""What it passes because a guest that no row owns has it is given back, and waits for the guest's end."""


def take_named_address(connection: Connection, network_id: int, ip: str) -> Address | None:
    """Assign the requested address if it is free and in a range of the network. Otherwise return None."""
    row = connection.execute(
        text(
            "SELECT id, gateway, netmask FROM ip_ranges WHERE network_id = :network AND removed IS NULL"
            " AND CAST(:ip AS inet) BETWEEN start_ip AND end_ip AND gateway <> host(CAST(:ip AS inet))"
            " ORDER BY id FOR UPDATE"
        ),
        {"network": network_id, "ip": ip},
    ).first()
    if row is None:
        return None
    taken = connection.execute(
        text(
            f"SELECT 1 FROM {IN_USE} used WHERE network_id = :network"  # noqa: S608 - ours
            " AND ip_address = CAST(:ip AS inet)"
        ),
        {"network": network_id, "ip": ip},
    ).first()
    if taken is not None:
        return None
    connection.execute(
        text("DELETE FROM released_addresses WHERE ip_range_id = :range AND ip_address = CAST(:ip AS inet)"),
        {"range": row.id, "ip": ip},
    )
    return Address(row.id, ip, row.gateway, row.netmask)


def lock_ranges(connection: Connection, network_ids: Sequence[int]) -> None:
    """Lock the ranges of these networks, so that no other transaction assigns or releases their addresses."""
    connection.execute(
        text("SELECT FROM ip_ranges WHERE network_id = ANY(:networks) ORDER BY id FOR UPDATE"),
        {"networks": sorted(set(network_ids))},
    )


def give_back(connection: Connection, range_id: int, ip: str) -> None:
    """Release an address that is not in use any more. The caller has locked its range."""
    connection.execute(
        text(
            "INSERT INTO released_addresses (ip_range_id, ip_address) SELECT id, CAST(:ip AS inet) FROM ip_ranges"
            " WHERE id = :range AND CAST(:ip AS inet) < next_ip ON CONFLICT DO NOTHING"
        ),
        {"range": range_id, "ip": ip},
    )


def release_addresses_of(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Mark the live NICs of these VMs as removed, and release their primary and secondary addresses."""
    # num_nulls: see store.arrays.is_live
    connection.execute(
        text(
            "SELECT FROM ip_ranges WHERE id IN (SELECT ip_range_id FROM nics WHERE vm_id = ANY(:vms)"
            "   AND num_nulls(removed) = 1 UNION ALL SELECT s.ip_range_id FROM nic_secondary_ips s"
            "   JOIN nics n ON n.id = s.nic_id WHERE n.vm_id = ANY(:vms) AND num_nulls(n.removed) = 1)"
            " ORDER BY id FOR UPDATE"
        ),
        {"vms": list(vm_ids)},
    )
    connection.execute(
        text(
            "WITH first AS (UPDATE nics SET removed = now() WHERE vm_id = ANY(:vms) AND num_nulls(removed) = 1"
            "   RETURNING ip_range_id, ip_address),"
            " secondary AS (DELETE FROM nic_secondary_ips s USING nics n WHERE n.id = s.nic_id"
            "   AND n.vm_id = ANY(:vms) AND num_nulls(n.removed) = 1 RETURNING s.ip_range_id, s.ip_address),"
            " gone AS (SELECT * FROM first UNION ALL SELECT * FROM secondary)"
            " INSERT INTO released_addresses (ip_range_id, ip_address)"
            " SELECT g.ip_range_id, g.ip_address FROM gone g JOIN ip_ranges r ON r.id = g.ip_range_id"
            " WHERE g.ip_address IS NOT NULL AND g.ip_address < r.next_ip"
            " ON CONFLICT DO NOTHING"
        ),
        {"vms": list(vm_ids)},
    )


def take_mac_addresses(connection: Connection, count: int) -> list[str]:
    """Return ``count`` MAC addresses that were never assigned here before and that no live NIC has.

    NICs of another cloud may have addresses with the same prefix as this installation.
    """
    free: list[str] = []
    drawn = count
    while len(free) < count:
        numbers = connection.execute(
            text("SELECT nextval('mac_address_numbers') FROM generate_series(1, :count)"), {"count": drawn}
        ).scalars()
        macs = [format_mac(number) for number in numbers]
        free += _without_used(connection, macs)
        drawn = min(2 * drawn, MOST_DRAWN)
    return free[:count]


MOST_DRAWN = 100_000
"""MAC addresses that are drawn at a time where those before were in use."""


def _without_used(connection: Connection, macs: list[str]) -> list[str]:
    query = text("SELECT mac_address FROM nics WHERE mac_address = ANY(:macs) AND removed IS NULL")
    used = set(connection.execute(query, {"macs": macs}).scalars())
    return [mac for mac in macs if mac not in used]


def will_be_generated(connection: Connection, mac: str) -> bool:
    """Return whether a later call of ``take_mac_addresses`` would return this address."""
    number = int(mac.replace(":", ""), 16) ^ MAC_PREFIX
    if number >= 1 << 40:
        return False
    query = text("SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM mac_address_numbers")
    return number > int(connection.execute(query).scalar_one())


def format_mac(number: int) -> str:
    """Return the MAC address with the installation's prefix and this number of the sequence."""
    return (MAC_PREFIX | number).to_bytes(6).hex(":")
