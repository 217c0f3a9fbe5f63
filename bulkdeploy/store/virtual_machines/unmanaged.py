"""Guests and volumes that hypervisors have and no row knows: what is to be known to give them rows."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.ledger.addresses import IN_USE

_VMS = text("SELECT uuid FROM virtual_machines WHERE removed IS NULL")
_VOLUMES = text("SELECT uuid FROM volumes WHERE removed IS NULL OR state = 'Destroy'")


def known_uuids(connection: Connection) -> tuple[set[UUID], set[UUID]]:
    """The VMs, and the volumes, that rows know: those that are still to be removed, too."""
    return set(connection.execute(_VMS).scalars()), set(connection.execute(_VOLUMES).scalars())


def used_before(connection: Connection, uuids: Collection[UUID]) -> set[UUID]:
    """Those of these uuids that a VM, a volume or a nic has, or had: no other one gets them."""
    query = text(
        "SELECT uuid FROM virtual_machines WHERE uuid = ANY(:uuids)"
        " UNION ALL SELECT uuid FROM volumes WHERE uuid = ANY(:uuids)"
        " UNION ALL SELECT uuid FROM nics WHERE uuid = ANY(:uuids)"
    )
    return set(connection.execute(query, {"uuids": list(uuids)}).scalars())


def hosts_of(connection: Connection, uuids: Collection[UUID]) -> dict[UUID, Row[Any]]:
    """These hosts by uuid: where they are, what drivers know them by, their state and the room that is free."""
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
    """These pools by uuid: where they are (cluster, host None: of all), state, size and what is promised of it."""
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
    """These networks by uuid: id, name, zone; they stay until the transaction ends."""
    query = text(
        "SELECT uuid, id, name, zone_id FROM networks WHERE uuid = ANY(:uuids) AND removed IS NULL"
        " ORDER BY id FOR SHARE"
    )
    return {row.uuid: row for row in connection.execute(query, {"uuids": list(uuids)})}


def addresses_in_use(
    connection: Connection, network_ids: Collection[int], ips: Collection[str]
) -> set[tuple[int, str]]:
    """Those of these addresses that live nics of these networks have."""
    query = text(
        f"SELECT network_id, host(ip_address) FROM {IN_USE} used"  # noqa: S608 - ours
        " WHERE network_id = ANY(CAST(:networks AS bigint[])) AND ip_address = ANY(CAST(:ips AS inet[]))"
    )
    rows = connection.execute(query, {"networks": int_array(sorted(network_ids)), "ips": list(ips)})
    return {(network, ip) for network, ip in rows}


def macs_in_use(connection: Connection, macs: Collection[str]) -> set[str]:
    """Those of these MAC addresses that live nics have."""
    query = text("SELECT mac_address FROM nics WHERE mac_address = ANY(:macs) AND removed IS NULL")
    return set(connection.execute(query, {"macs": list(macs)}).scalars())


def templates_of(connection: Connection, uuids: Collection[UUID]) -> dict[UUID, int]:
    """The internal ids of these templates, those deleted since, too."""
    query = text("SELECT uuid, id FROM templates WHERE uuid = ANY(:uuids)")
    return {row.uuid: row.id for row in connection.execute(query, {"uuids": list(uuids)})}


def service_offerings(connection: Connection) -> Sequence[Row[Any]]:
    """Every offering that there is: id, uuid, name and sizes; NULL: the deploy call says it."""
    columns = "id, uuid, name, cpu_number, cpu_mhz, memory_mib"
    return connection.execute(
        text(f"SELECT {columns} FROM service_offerings WHERE removed IS NULL ORDER BY id")  # noqa: S608 - ours
    ).all()


def names_in_use(
    connection: Connection, network_ids: Collection[int], names: Collection[str]
) -> set[tuple[int, str]]:
    """Those of these names, in lower case, that VMs hold in these networks."""
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
    """The internal ids of what has this id or name; of domains, or this path (``ROOT/a``)."""
    return connection.execute(_NAMED[table], {"named": named}).scalars().all()
