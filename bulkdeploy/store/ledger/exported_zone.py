"""The names in a zone, and the consumers of claims on its hosts, for allocator programs."""

from typing import Any

from sqlalchemy import Connection, Row, text

_CLAIMS = text(
    "SELECT x.consumer, x.host_id, x.cpu_mhz, x.memory_mib, coalesce(d.bytes, 0) AS local_bytes"
    " FROM host_claims x JOIN hosts h ON h.id = x.host_id AND h.zone_id = :zone AND h.removed IS NULL"
    " LEFT JOIN LATERAL (SELECT sum(w.size_bytes)::bigint AS bytes FROM virtual_machines v"
    "   JOIN volumes w ON w.vm_id = v.id AND w.removed IS NULL"
    "   JOIN storage_pools p ON p.id = w.pool_id AND p.scope = 'HOST' WHERE v.uuid = x.consumer) d ON true"
    " ORDER BY x.host_id, x.consumer"
)


def read_claims(connection: Connection, zone_id: int) -> list[Row[Any]]:
    """Return the claims on hosts of the zone.

    The columns are the consumer, host_id, MHz, MiB, and the bytes of its volumes on the host's local disks.
    """
    return list(connection.execute(_CLAIMS, {"zone": zone_id}))


def read_zone_name(connection: Connection, zone_id: int) -> str:
    """Return the name of a zone."""
    return str(connection.execute(text("SELECT name FROM zones WHERE id = :zone"), {"zone": zone_id}).scalar_one())


def read_places(connection: Connection, zone_id: int) -> tuple[list[Row[Any]], list[Row[Any]]]:
    """Return the live hosts and the live clusters of the zone, with id, uuid and name."""
    hosts, clusters = (
        list(
            connection.execute(
                text(f"SELECT id, uuid, name FROM {table} WHERE zone_id = :zone AND removed IS NULL ORDER BY id"),  # noqa: S608 - our own names
                {"zone": zone_id},
            )
        )
        for table in ("hosts", "clusters")
    )
    return hosts, clusters


def find_zone(connection: Connection, named: str) -> int | None:
    """Return the id of the zone with this name or uuid, or None if there is no such zone."""
    found = text("SELECT id FROM zones WHERE removed IS NULL AND (name = :named OR uuid::text = lower(:named))")
    return connection.execute(found, {"named": named}).scalar()


def an_owner(connection: Connection) -> int:
    """Return the id of the first account. It is used to read a zone when the owner does not matter."""
    return int(connection.execute(text("SELECT min(id) FROM accounts")).scalar_one())
