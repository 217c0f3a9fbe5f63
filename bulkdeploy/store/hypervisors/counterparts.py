"""Records of the calls to an upstream cloud for VMs and volumes. Rows are never deleted."""

from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.networks.addresses import GivenNic
from bulkdeploy.store.networks.given_addresses import GivenAddress, nics_of, write_given_addresses

_FIND = text("SELECT attempt, root_uuid FROM counterparts WHERE uuid = :uuid")


def find_counterpart(connection: Connection, uuid: UUID) -> Row[Any] | None:
    """Return the attempt number and the root volume of a VM or volume, or None if nothing is recorded."""
    return connection.execute(_FIND, {"uuid": uuid}).first()


_NOTE = text(
    "INSERT INTO counterparts AS c (uuid, root_uuid) VALUES (:uuid, :root) ON CONFLICT (uuid) DO UPDATE"
    " SET root_uuid = coalesce(excluded.root_uuid, c.root_uuid) RETURNING attempt, root_uuid"
)


def record_counterpart(connection: Connection, uuid: UUID, root_uuid: UUID | None) -> Row[Any]:
    """Record an upstream deployment attempt, with its root volume if known; return the attempt and root volume."""
    return connection.execute(_NOTE, {"uuid": uuid, "root": root_uuid}).one()


_SPEND = text(
    "INSERT INTO counterparts AS c (uuid, attempt) VALUES (:uuid, :next) ON CONFLICT (uuid) DO UPDATE"
    " SET attempt = :next, root_uuid = NULL WHERE c.attempt < :next"
)


def begin_next_attempt(connection: Connection, uuid: UUID, attempt: int) -> None:
    """Begin the next attempt, which has no root volume yet. Nothing changes if a later attempt is recorded."""
    connection.execute(_SPEND, {"uuid": uuid, "next": attempt + 1})


def write_addresses(
    connection: Connection, uuid: UUID, given: Sequence[GivenNic], is_of_cloud: Callable[[str], bool]
) -> None:
    """Write the addresses that the cloud assigned to the NICs of a VM.

    If a VM has several NICs in one network, addresses are assigned to them in order.
    """
    rows = list(nics_of(connection, uuid))
    addresses: list[GivenAddress] = []
    for one in given:
        row = next((row for row in rows if row.network_uuid == one.network_uuid), None)
        if row is not None:
            rows.remove(row)
            if (row.ip, row.mac) != (one.ip_address, one.mac_address):
                addresses.append(
                    GivenAddress(row.id, row.network_id, one.mac_address, one.ip_address, one.gateway, one.netmask)
                )
    write_given_addresses(connection, addresses, is_of_cloud)


_OF_ROOT = text("SELECT uuid FROM counterparts WHERE root_uuid = :root")


def guest_of_root(connection: Connection, root_uuid: UUID) -> UUID | None:
    """Return the VM that is recorded with this root volume, or None if there is none."""
    found: UUID | None = connection.execute(_OF_ROOT, {"root": root_uuid}).scalar()
    return found


_ALL = text("SELECT uuid, attempt, root_uuid FROM counterparts")


def all_noted(connection: Connection) -> Sequence[Row[Any]]:
    """Return all records, with the columns uuid, attempt and root_uuid."""
    return connection.execute(_ALL).all()


_AMONG = text(
    "SELECT uuid, attempt, root_uuid FROM counterparts"
    " WHERE uuid = ANY(:ids) OR root_uuid = ANY(:ids) OR attempt > 1"
)


def noted_among(connection: Connection, ids: Collection[UUID]) -> Sequence[Row[Any]]:
    """Return the records in which one of these ids is the upstream VM's id, or a root volume's id here.

    Only records whose first attempt failed are searched.
    """
    return connection.execute(_AMONG, {"ids": list(ids)}).all()
