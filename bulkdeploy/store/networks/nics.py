"""Rows of NICs: the list query, inserts and deletes."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, text, union_all, update

from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.ledger.addresses import Address
from bulkdeploy.store.rows.filters import Arguments, Filters, always, by_id, filtered, id_in, keyword
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.tables.networks import ip_ranges, networks, nic_secondary_ips, nics
from bulkdeploy.store.tables.virtual_machines import virtual_machines
from bulkdeploy.store.virtual_machines.virtual_machine_lists import secondary_ips

FILTERS: Filters = {
    "nicid": by_id(nics.c.id),
    "networkid": by_id(nics.c.network_id),
    "fordisplay": always(True),
    "keyword": keyword(networks.c.name, nics.c.mac_address, func.host(nics.c.ip_address)),
}


def list_nics(connection: Connection, vm_id: int, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of a VM's nics, in device order."""
    nic, network = nics.c, networks.c
    uri = func.concat("vlan://", func.coalesce(ip_ranges.c.vlan, network.vlan))
    has_vlan = func.coalesce(ip_ranges.c.vlan, network.vlan).is_not(None)
    query = (
        select(
            nic.uuid.label("id"),
            network.uuid.label("networkid"),
            network.name.label("networkname"),
            nic.netmask,
            nic.gateway,
            func.host(nic.ip_address).label("ipaddress"),
            nic.mac_address.label("macaddress"),
            nic.device_id.label("deviceid"),
            nic.is_default.label("isdefault"),
            network.guest_type.label("type"),
            uri.label("broadcasturi"),
            has_vlan.label("_has_vlan"),
            secondary_ips(),
            virtual_machines.c.uuid.label("virtualmachineid"),
        )
        .select_from(
            nics.join(networks, network.id == nic.network_id)
            .join(virtual_machines, virtual_machines.c.id == nic.vm_id)
            .outerjoin(ip_ranges, ip_ranges.c.id == nic.ip_range_id)
        )
        .where(nic.vm_id == vm_id, nic.removed.is_(None))
        .order_by(nic.device_id, nic.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        row["broadcasturi"] = row["broadcasturi"] if row.pop("_has_vlan") else None
        row.update(traffictype="Guest", isolationuri=row["broadcasturi"], deviceid=str(row["deviceid"]))
    return Page(rows, count)


def live_nics(connection: Connection, vm_id: int) -> list[Row[Any]]:
    """Return the rows of the VM's live NICs in device order. They cannot change while the VM's row is locked."""
    query = select(nics).where(nics.c.vm_id == vm_id, nics.c.removed.is_(None))
    return list(connection.execute(query.order_by(nics.c.device_id)).all())


def mac_in_use(connection: Connection, mac: str) -> bool:
    """Return whether a live nic has this MAC address."""
    query = select(1).where(nics.c.mac_address == mac, nics.c.removed.is_(None))
    return connection.execute(query).first() is not None


def insert_nic(
    connection: Connection,
    vm_id: int,
    network_id: int,
    address: Address | None,
    mac: str,
    device_id: int,
    default: bool,
    *,
    has_requested_ip: bool = False,
    has_requested_mac: bool = False,
) -> Row[Any]:
    """Insert a NIC, and return its internal id and its uuid.

    ``has_requested_ip`` and ``has_requested_mac`` tell whether the caller chose the address.
    """
    made = insert(nics).values(
        vm_id=vm_id,
        network_id=network_id,
        ip_range_id=None if address is None else address.range_id,
        ip_address=None if address is None else address.ip,
        gateway=None if address is None else address.gateway,
        netmask=None if address is None else address.netmask,
        mac_address=mac,
        device_id=device_id,
        is_default=default,
        has_requested_ip=has_requested_ip,
        has_requested_mac=has_requested_mac,
        vm_name=select(func.lower(virtual_machines.c.name)).where(virtual_machines.c.id == vm_id).scalar_subquery(),
    )
    return connection.execute(made.returning(nics.c.id, nics.c.uuid)).one()


def reserve_name(connection: Connection, vm_id: int, name: str) -> None:
    """Reserve this name for the VM in all its networks, so that no other VM can get the name there."""
    live = update(nics).where(nics.c.vm_id == vm_id, nics.c.removed.is_(None))
    connection.execute(live.values(vm_name=name.lower()))


def reserve_names(connection: Connection, vm_ids: Collection[int]) -> None:
    """Reserve the host name of each VM in all its networks, as ``reserve_name`` does."""
    vm, nic = virtual_machines.c, nics.c
    held = update(nics).where(id_in(nic.vm_id, vm_ids), nic.vm_id == vm.id, nic.removed.is_(None))
    connection.execute(held.values(vm_name=func.lower(vm.name)))


_TAKEN_NAMES = text(
    "SELECT DISTINCT v.id FROM virtual_machines v"
    " JOIN virtual_machines x ON lower(x.name) = lower(v.name) AND x.id <> v.id AND x.removed IS NULL"
    "   AND (x.state NOT IN ('Destroyed', 'Expunging') OR (x.id = ANY(CAST(:vms AS bigint[])) AND x.id < v.id))"
    " JOIN nics n ON n.vm_id = v.id AND n.removed IS NULL"
    " JOIN nics o ON o.vm_id = x.id AND o.network_id = n.network_id AND o.removed IS NULL"
    " WHERE v.id = ANY(CAST(:vms AS bigint[]))"
)


def find_taken_names(connection: Connection, vm_ids: Collection[int]) -> set[int]:
    """Return the ids of the VMs out of ``vm_ids`` whose host name another VM uses in one of their networks.

    The VMs in ``vm_ids`` are about to become live. The other VM is live, or comes earlier in ``vm_ids``.
    """
    return set(connection.execute(_TAKEN_NAMES, {"vms": int_array(vm_ids)}).scalars())


def make_default(connection: Connection, vm_id: int, nic_id: int) -> None:
    """Make one of the VM's NICs its only default NIC."""
    nic = nics.c
    changed = update(nics).where(nic.vm_id == vm_id, nic.removed.is_(None))
    connection.execute(changed.values(is_default=nic.id == nic_id))


def lock_ranges_of(connection: Connection, nic_id: int) -> None:
    """Lock the IP ranges of a NIC's addresses. The lock order (ADR 5) requires this before the VM is locked."""
    secondary = nic_secondary_ips.c
    wanted = union_all(
        select(nics.c.ip_range_id).where(nics.c.id == nic_id),
        select(secondary.ip_range_id).where(secondary.nic_id == nic_id),
    )
    ranges = select(ip_ranges.c.id).where(ip_ranges.c.id.in_(wanted)).order_by(ip_ranges.c.id)
    connection.execute(ranges.with_for_update())


def remove_nic(connection: Connection, nic_id: int) -> None:
    """Mark a NIC as removed and release its addresses. The caller has locked their ranges."""
    connection.execute(
        text(
            "WITH first AS (UPDATE nics SET removed = now() WHERE id = :nic AND removed IS NULL"
            "   RETURNING ip_range_id, ip_address),"
            " secondary AS (DELETE FROM nic_secondary_ips WHERE nic_id = :nic RETURNING ip_range_id, ip_address),"
            " gone AS (SELECT * FROM first UNION ALL SELECT * FROM secondary)"
            " INSERT INTO released_addresses (ip_range_id, ip_address)"
            " SELECT g.ip_range_id, g.ip_address FROM gone g JOIN ip_ranges r ON r.id = g.ip_range_id"
            " WHERE g.ip_address IS NOT NULL AND g.ip_address < r.next_ip ON CONFLICT DO NOTHING"
        ),
        {"nic": nic_id},
    )


def read_vm(connection: Connection, vm_id: int) -> Row[Any]:
    """Return a VM's row without locking it."""
    return connection.execute(select(virtual_machines).where(virtual_machines.c.id == vm_id)).one()
