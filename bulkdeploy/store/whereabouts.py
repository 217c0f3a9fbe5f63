"""The hosts of all VMs at one moment, with a serial number that grows with every change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The rows of all hosts, VMs, addresses of VMs, and volumes that are not removed.

    ``version`` is the schema's.
    """

    version: int
    hosts: list[Mapping[str, Any]]
    vms: list[Mapping[str, Any]]
    addresses: list[Mapping[str, Any]]
    volumes: list[Mapping[str, Any]]


def serial(connection: Connection) -> int:
    """Return a serial number of the data, which grows with every committed change.

    The number is the position of PostgreSQL's write-ahead log.
    """
    return int(connection.execute(_SERIAL).scalar_one())


def whereabouts(connection: Connection) -> Whereabouts:
    """Read all hosts, VMs, addresses and volumes that are not removed.

    The rows form one snapshot only if the transaction's isolation level is REPEATABLE READ or higher.
    """

    def rows(statement: str) -> list[Mapping[str, Any]]:
        return [dict(row) for row in connection.execute(text(statement)).mappings()]

    version = connection.execute(text("SELECT max(revision) FROM schema_revisions")).scalar_one()
    return Whereabouts(int(str(version)[:4]), rows(_HOSTS), rows(_VMS), rows(_ADDRESSES), rows(_VOLUMES))


_SERIAL = text(
    "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"
    " - '0/0'::pg_lsn)::bigint"
)

_HOSTS = """
SELECT h.id, h.uuid::text AS uuid, h.name, h.ip_address, h.state, h.resource_state, c.uuid::text AS cluster
FROM hosts h JOIN clusters c ON c.id = h.cluster_id WHERE h.removed IS NULL ORDER BY h.id"""

_VMS = """
SELECT id, uuid::text AS uuid, name, instance_name, host_id, state, cpu_number, memory_mib
FROM virtual_machines WHERE removed IS NULL ORDER BY id"""

_ADDRESSES = """
SELECT n.vm_id, k.uuid::text AS network, k.name AS network_name, a.address
FROM nics n JOIN networks k ON k.id = n.network_id
CROSS JOIN LATERAL (
    SELECT host(n.ip_address) AS address WHERE n.ip_address IS NOT NULL
    UNION ALL SELECT host(s.ip_address) FROM nic_secondary_ips s WHERE s.nic_id = n.id
) a
WHERE n.removed IS NULL ORDER BY n.id"""

_VOLUMES = """
SELECT v.vm_id, v.uuid::text AS uuid, v.name, v.size_bytes, p.uuid::text AS pool, p.pool_type
FROM volumes v LEFT JOIN storage_pools p ON p.id = v.pool_id
WHERE v.removed IS NULL AND v.vm_id IS NOT NULL ORDER BY v.vm_id, v.device_id"""
