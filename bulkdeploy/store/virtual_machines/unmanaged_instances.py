"""Guests and volumes without rows, and the data that is needed to import them.

Unmanaged guests that a query of the hypervisors found are recorded (``unmanaged_guests``), so that no VM gets an
address that such a guest uses.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.ledger.addresses import OF_NICS
from bulkdeploy.store.locks import Lock, take_lock

_UNKNOWN = text(
    "SELECT u.uuid FROM unnest(CAST(:uuids AS uuid[])) u (uuid) WHERE NOT EXISTS (SELECT FROM virtual_machines v"
    " WHERE v.uuid = u.uuid AND (v.removed IS NULL OR v.removed >= CAST(:since AS timestamptz)))"
)
_VOLUMES = text("SELECT uuid FROM volumes WHERE removed IS NULL OR state = 'Destroy'")


def read_moment(connection: Connection) -> datetime:
    """Return the time at which this transaction began, according to the database's clock."""
    moment: datetime = connection.execute(text("SELECT now()")).scalar_one()
    return moment


def unknown_guests(connection: Connection, uuids: Collection[UUID], since: datetime | None = None) -> set[UUID]:
    """Return the uuids out of ``uuids`` of guests that belong to no live VM.

    With ``since``, guests of VMs that were expunged after that time are omitted as well, because such a guest may
    have been seen before its VM was expunged.
    """
    return set(connection.execute(_UNKNOWN, {"uuids": list(uuids), "since": since}).scalars())


def known_volumes(connection: Connection) -> set[UUID]:
    """Return the uuids of all volumes with rows, including volumes that must still be deleted from their pools."""
    return set(connection.execute(_VOLUMES).scalars())


_FORGET_UNSEEN = text(
    "DELETE FROM unmanaged_guests WHERE noted < :before AND guest_uuid <> ALL(CAST(:guests AS uuid[]))"
)
_NOTE = text(
    "INSERT INTO unmanaged_guests (guest_uuid) SELECT unnest(CAST(:guests AS uuid[])) ON CONFLICT DO NOTHING"
)
_NOTE_ADDRESSES = text(
    "INSERT INTO unmanaged_addresses (guest_uuid, network_id, ip_address)"
    " SELECT a.guest, n.id, a.ip"
    " FROM unnest(CAST(:guests AS uuid[]), CAST(:networks AS uuid[]), CAST(:ips AS inet[])) a (guest, network, ip)"
    " JOIN networks n ON n.uuid = a.network AND n.removed IS NULL ON CONFLICT DO NOTHING"
)


def record_unmanaged(
    connection: Connection,
    guests: Collection[UUID],
    addresses: Iterable[tuple[UUID, UUID, str]],
    *,
    began: datetime,
    was_complete: bool,
) -> set[UUID]:
    """Record the unmanaged guests and their addresses that a query of the hypervisors found.

    Returns the guests without a VM. ``began`` is the start time of the query. If the query was complete, earlier
    records that it did not confirm are deleted.
    """
    take_lock(connection, Lock.UNMANAGED)
    unknown = unknown_guests(connection, guests)
    if was_complete:
        connection.execute(_FORGET_UNSEEN, {"guests": sorted(unknown), "before": began})
    connection.execute(_NOTE, {"guests": sorted(unknown)})
    if rows := [one for one in addresses if one[0] in unknown]:
        owners, networks, ips = (list(column) for column in zip(*rows, strict=True))
        connection.execute(_NOTE_ADDRESSES, {"guests": owners, "networks": networks, "ips": ips})
    return unknown


_NOTE_LET_GO = (
    text(
        "INSERT INTO unmanaged_guests (guest_uuid, let_go) SELECT uuid, true FROM virtual_machines WHERE id = :vm"
        " ON CONFLICT (guest_uuid) DO UPDATE SET let_go = true, noted = now()"
    ),
    text(
        "INSERT INTO unmanaged_addresses (guest_uuid, network_id, ip_address)"
        " SELECT v.uuid, a.network_id, a.ip_address FROM virtual_machines v JOIN"
        "   (SELECT vm_id, network_id, ip_address FROM nics WHERE vm_id = :vm AND removed IS NULL"
        "    UNION ALL SELECT n.vm_id, s.network_id, s.ip_address"
        "    FROM nic_secondary_ips s JOIN nics n ON n.id = s.nic_id"
        "    WHERE n.vm_id = :vm AND n.removed IS NULL) a ON a.vm_id = v.id"
        " WHERE a.ip_address IS NOT NULL ON CONFLICT DO NOTHING"
    ),
    text("UPDATE volumes SET standalone = false WHERE vm_id = :vm AND removed IS NULL AND standalone"),
)


def record_released_guest(connection: Connection, vm_id: int) -> None:
    """Record that a VM's guest is unmanaged on purpose, with its addresses and its volumes."""
    for statement in _NOTE_LET_GO:
        connection.execute(statement, {"vm": vm_id})


_REMOVE_ROWS = (
    text("UPDATE nics SET uuid = gen_random_uuid() WHERE vm_id = :vm AND removed = now()"),
    text("UPDATE volumes SET uuid = gen_random_uuid() WHERE vm_id = :vm AND removed = now()"),
    text(
        "UPDATE virtual_machines SET uuid = gen_random_uuid(), state = 'Expunging', removed = now(),"
        "   updated = now() WHERE id = :vm"
    ),
)


def remove_rows(connection: Connection, vm_id: int) -> None:
    """Delete the rows of a VM without claims and of its devices, so that their uuids become free."""
    for statement in _REMOVE_ROWS:
        connection.execute(statement, {"vm": vm_id})


def forget_guests(connection: Connection, guests: Collection[UUID]) -> None:
    """Delete the records of unmanaged guests that were imported or removed. Their addresses become free."""
    query = text("DELETE FROM unmanaged_guests WHERE guest_uuid = ANY(CAST(:guests AS uuid[]))")
    connection.execute(query, {"guests": list(guests)})


def released_guests(connection: Connection) -> set[UUID]:
    """Return the guests that run without a VM row on purpose, because unmanageVirtualMachine released them."""
    return set(connection.execute(text("SELECT guest_uuid FROM unmanaged_guests WHERE let_go")).scalars())


def used_before(connection: Connection, uuids: Collection[UUID]) -> set[UUID]:
    """Return the uuids out of ``uuids`` that a VM, a volume or a NIC has or had. No other object may get them."""
    query = text(
        "SELECT uuid FROM virtual_machines WHERE uuid = ANY(:uuids)"
        " UNION ALL SELECT uuid FROM volumes WHERE uuid = ANY(:uuids)"
        " UNION ALL SELECT uuid FROM nics WHERE uuid = ANY(:uuids)"
    )
    return set(connection.execute(query, {"uuids": list(uuids)}).scalars())


def hosts_of(connection: Connection, uuids: Collection[UUID]) -> dict[UUID, Row[Any]]:
    """Return live hosts by uuid: zone, pod and cluster, the columns that drivers need, state and free capacity."""
    rows = connection.execute(
        text(
            "SELECT h.uuid, h.id, h.name, h.ip_address, h.hypervisor, h.url, h.state, h.resource_state,"
            " h.cpu_cores, h.cpu_mhz, h.cluster_id, h.pod_id, h.zone_id,"
            " l.uuid AS cluster_uuid, l.name AS cluster_name,"
            " c.cpu_mhz_limit - c.cpu_mhz_used AS free_cpu_mhz,"
            " c.memory_mib_limit - c.memory_mib_used AS free_memory_mib,"
            " c.vms_limit - c.vms_used AS free_vms"
            " FROM hosts h JOIN host_capacity c ON c.host_id = h.id JOIN clusters l ON l.id = h.cluster_id"
            " WHERE h.uuid = ANY(:uuids) AND h.removed IS NULL"
        ),
        {"uuids": list(uuids)},
    )
    return {row.uuid: row for row in rows}


def pools_of(connection: Connection, uuids: Collection[UUID]) -> dict[UUID, Row[Any]]:
    """Return pools by uuid with their scope, state, size and allocated bytes.

    ``cluster_id`` or ``host_id`` is None if the pool serves all clusters or hosts.
    """
    rows = connection.execute(
        text(
            "SELECT uuid, id, name, zone_id, cluster_id, host_id, state, capacity_bytes, allocated_bytes,"
            " (scope = 'HOST')::int AS local FROM storage_pools"
            " WHERE uuid = ANY(:uuids) AND removed IS NULL ORDER BY id"
        ),
        {"uuids": list(uuids)},
    )
    return {row.uuid: row for row in rows}


def networks_of(connection: Connection, uuids: Collection[UUID]) -> dict[UUID, Row[Any]]:
    """Return networks by uuid: id, name, zone. The rows cannot be removed until the transaction ends."""
    query = text(
        "SELECT uuid, id, name, zone_id FROM networks WHERE uuid = ANY(:uuids) AND removed IS NULL"
        " ORDER BY id FOR SHARE"
    )
    return {row.uuid: row for row in connection.execute(query, {"uuids": list(uuids)})}


def addresses_in_use(
    connection: Connection, network_ids: Collection[int], ips: Collection[str]
) -> set[tuple[int, str]]:
    """Return the pairs of network and address that live NICs of these networks use.

    Only addresses out of ``ips`` are returned. Addresses of guests without rows are not included.
    """
    query = text(
        f"SELECT network_id, host(ip_address) FROM {OF_NICS} used"  # noqa: S608 - ours
        " WHERE network_id = ANY(CAST(:networks AS bigint[])) AND ip_address = ANY(CAST(:ips AS inet[]))"
    )
    rows = connection.execute(query, {"networks": int_array(sorted(network_ids)), "ips": list(ips)})
    return {(network, ip) for network, ip in rows}


def macs_in_use(connection: Connection, macs: Collection[str]) -> set[str]:
    """Return the MAC addresses out of ``macs`` that live NICs have."""
    query = text("SELECT mac_address FROM nics WHERE mac_address = ANY(:macs) AND removed IS NULL")
    return set(connection.execute(query, {"macs": list(macs)}).scalars())


def templates_of(connection: Connection, uuids: Collection[UUID]) -> dict[UUID, int]:
    """Return the internal ids of templates by uuid, including deleted templates."""
    query = text("SELECT uuid, id FROM templates WHERE uuid = ANY(:uuids)")
    return {row.uuid: row.id for row in connection.execute(query, {"uuids": list(uuids)})}


def service_offerings(connection: Connection) -> Sequence[Row[Any]]:
    """Return every live offering with id, uuid, name and sizes. A NULL size is chosen by the deploy call."""
    columns = "id, uuid, name, cpu_number, cpu_mhz, memory_mib"
    return connection.execute(
        text(f"SELECT {columns} FROM service_offerings WHERE removed IS NULL ORDER BY id")  # noqa: S608 - ours
    ).all()


def names_in_use(
    connection: Connection, network_ids: Collection[int], names: Collection[str]
) -> set[tuple[int, str]]:
    """Return the pairs of network and name, in lower case, that VMs have reserved. Only ``names`` are returned."""
    query = text(
        "SELECT network_id, vm_name FROM nics WHERE network_id = ANY(CAST(:networks AS bigint[]))"
        " AND vm_name = ANY(:names) AND removed IS NULL"
    )
    rows = connection.execute(query, {"networks": int_array(sorted(network_ids)), "names": list(names)})
    return {(network, name) for network, name in rows}


_NAMED = {
    table: text(
        f"SELECT id FROM {table} WHERE removed IS NULL AND (uuid::text = lower(:named) OR name = :named{also})"  # noqa: S608
    )
    for table, also in (("domains", " OR path = :named"), ("service_offerings", ""), ("templates", ""))
}


def id_of_named(connection: Connection, table: str, named: str) -> Sequence[int]:
    """Return the internal ids of objects with this uuid or name. Domains can also be named by path (``ROOT/a``)."""
    return connection.execute(_NAMED[table], {"named": named}).scalars().all()
