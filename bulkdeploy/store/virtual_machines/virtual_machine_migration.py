"""Claims during a migration: the migration claims the source, and the VM claims the destination.

The source host of a migration is recorded only in the migration's claim. Before a migration begins, it may have a
reservation of the destination instead; every end of the job releases the reservation. All functions run in the
caller's transaction.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, Row, text

from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.ledger.ledger import ConsumerKind, lock_hosts, release_hosts_of
from bulkdeploy.store.ledger.release import release_hosts

_GIVE_CLAIM = text(
    "UPDATE host_claims c SET consumer = w.taker, consumer_kind = :kind"
    " FROM (SELECT unnest(CAST(:givers AS uuid[])) AS giver, unnest(CAST(:takers AS uuid[])) AS taker) w"
    " WHERE c.consumer = w.giver"
)


class SourceReleasedError(Exception):
    """Raised when a VM that must move has no host claim any more, for example because its host was declared off."""


def take_over_source(connection: Connection, vm_uuid: UUID, migration: UUID) -> None:
    """Transfer the VM's host claim to its migration, so that the VM can claim its destination.

    Raises:
        SourceReleasedError: the VM has no claim. The transaction must be rolled back, and the VM read again.
    """
    given = {"givers": [vm_uuid], "takers": [migration], "kind": ConsumerKind.MIGRATION.value}
    if not connection.execute(_GIVE_CLAIM, given).rowcount:
        raise SourceReleasedError(f"VM {vm_uuid} holds no host")


_PAIRS = (
    "SELECT r.consumer AS job, c.consumer AS vm, c.host_id AS source, h.id AS destination, h.cluster_id, h.pod_id"
    " FROM unnest(CAST(:vms AS uuid[]), CAST(:jobs AS uuid[])) AS w(vm, job)"
    " JOIN host_claims r ON r.consumer = w.job AND r.consumer_kind = :reservation"
    " JOIN hosts h ON h.id = r.host_id AND h.state = 'Up' AND h.resource_state = 'Enabled' AND h.removed IS NULL"
    " JOIN host_claims c ON c.consumer = w.vm AND (c.cpu_mhz, c.memory_mib) = (r.cpu_mhz, r.memory_mib)"
)
"""The claims of VMs and of the migrations that reserved hosts for them, of VMs that may move there now."""

_RESERVED = text(_PAIRS)

_LOCK_VMS = text("SELECT id FROM virtual_machines WHERE uuid = ANY(:vms) ORDER BY id FOR NO KEY UPDATE")
"""Other transactions lock several VMs in the order of their ids as well, after their hosts."""

_BEGIN_RESERVED = text(
    f"WITH pair AS ({_PAIRS}),"  # noqa: S608 - a constant
    " swapped AS (UPDATE host_claims x SET"
    "     host_id = CASE x.consumer WHEN pair.vm THEN pair.destination ELSE pair.source END,"
    "     consumer_kind = CASE x.consumer WHEN pair.vm THEN x.consumer_kind ELSE :migration END"
    "   FROM pair WHERE x.consumer IN (pair.vm, pair.job))"
    " UPDATE virtual_machines v SET host_id = pair.destination, cluster_id = pair.cluster_id, pod_id = pair.pod_id,"
    "   updated = now() FROM pair WHERE v.uuid = pair.vm RETURNING v.uuid"
)


def begin_reserved(connection: Connection, migrations: Mapping[UUID, UUID]) -> set[UUID]:
    """Begin migrations with a reserved destination: VMs claim the destinations, and migrations the sources.

    ``migrations`` maps VMs to their migrations. Returns the VMs whose migrations have begun. The others have
    reserved no host, or their host is not Up and Enabled any more; nothing is changed for these.

    Raises:
        TransactionConflict: a host changed concurrently. The whole transaction must be repeated.
    """
    named = {
        "vms": list(migrations),
        "jobs": list(migrations.values()),
        "reservation": ConsumerKind.RESERVATION.value,
    }
    reserved = connection.execute(_RESERVED, named).all()
    if not reserved:
        return set()
    lock_hosts(connection, np.unique(np.array([row.destination for row in reserved], dtype=np.int64)))
    vms = [row.vm for row in reserved]
    connection.execute(_LOCK_VMS, {"vms": vms})
    begun = {**named, "vms": vms, "jobs": [row.job for row in reserved], "migration": ConsumerKind.MIGRATION.value}
    if set(connection.execute(_BEGIN_RESERVED, begun).scalars()) != set(vms):
        raise TransactionConflict
    return set(vms)


_RESERVATIONS = text(
    "SELECT j.uuid FROM async_jobs j JOIN host_claims x ON x.consumer = j.uuid AND x.consumer_kind = :reservation"
    " WHERE j.instance_id = ANY(:vms) AND j.instance_type = 'VirtualMachine' AND j.status = 0"
)


def _reservations_of(connection: Connection, vm_ids: Sequence[int]) -> list[UUID]:
    wanted = {"vms": list(vm_ids), "reservation": ConsumerKind.RESERVATION.value}
    return list(connection.execute(_RESERVATIONS, wanted).scalars())


def release_reservations(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Release the hosts that migrations of these VMs reserved and will not use."""
    release_hosts_of(connection, _reservations_of(connection, vm_ids))


_SOURCES = text(
    "SELECT x.consumer AS migration, h.id, h.uuid, h.name, h.ip_address, h.hypervisor, h.url,"
    " h.fenced IS NOT NULL AS is_off FROM host_claims x JOIN hosts h ON h.id = x.host_id"
    " WHERE x.consumer = ANY(:migrations) AND x.consumer_kind = 1"
)


def read_sources(connection: Connection, migrations: Sequence[UUID]) -> dict[UUID, Row[Any]]:
    """Return the host that each migration claims. Migrations without a claim are omitted.

    The columns are those of ``address_of``, id, and is_off, which tells whether the host was declared off.
    """
    rows = connection.execute(_SOURCES, {"migrations": list(migrations)})
    return {row.migration: row for row in rows}


def release_sources(connection: Connection, vm_ids: Sequence[int]) -> None:
    """End the migrations of VMs that have arrived at their destinations.

    The claims of the migrations are deleted, and the source hosts are recorded as last hosts.
    """
    moves = _migrations_of(connection, vm_ids)
    release_hosts_of(connection, [*(move.migration for move in moves), *_reservations_of(connection, vm_ids)])
    connection.execute(
        text(
            "UPDATE virtual_machines v SET last_host_id = w.host_id, updated = now()"
            " FROM (SELECT unnest(CAST(:vms AS bigint[])) AS vm_id, unnest(CAST(:hosts AS bigint[])) AS host_id) w"
            " WHERE v.id = w.vm_id"
        ),
        {"vms": [move.vm_id for move in moves], "hosts": [move.host_id for move in moves]},
    )


def release_destinations(connection: Connection, vm_ids: Sequence[int]) -> None:
    """End the migrations of VMs that did not move: release the destinations, and return the sources to the VMs.

    VMs whose source was declared off have no host afterwards, because their guests do not run there any more.
    """
    every = _migrations_of(connection, vm_ids)
    _release_both(connection, [move for move in every if move.is_off])
    moves = [move for move in every if not move.is_off]
    vm_uuids = [move.vm_uuid for move in moves]
    release_hosts_of(connection, [*vm_uuids, *_reservations_of(connection, vm_ids)])
    connection.execute(
        _GIVE_CLAIM,
        {"givers": [move.migration for move in moves], "takers": vm_uuids, "kind": ConsumerKind.VM.value},
    )
    connection.execute(
        text(
            "UPDATE virtual_machines v SET host_id = h.id, cluster_id = h.cluster_id, pod_id = h.pod_id,"
            " updated = now() FROM host_claims x JOIN hosts h ON h.id = x.host_id"
            " WHERE v.id = ANY(:vms) AND x.consumer = v.uuid"
        ),
        {"vms": [move.vm_id for move in moves]},
    )


def release_both_hosts(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Release all hosts that these VMs and their migrations claim, because their guests run nowhere.

    The source hosts are recorded as the last hosts.
    """
    release_reservations(connection, vm_ids)
    moves = _migrations_of(connection, vm_ids)
    _release_both(connection, moves)
    release_hosts(connection, sorted(set(vm_ids) - {move.vm_id for move in moves}))


def _release_both(connection: Connection, moves: Sequence[Row[Any]]) -> None:
    if not moves:
        return
    release_hosts_of(connection, [consumer for move in moves for consumer in (move.migration, move.vm_uuid)])
    connection.execute(
        text(
            "UPDATE virtual_machines v SET host_id = NULL, last_host_id = w.host_id, updated = now()"
            " FROM (SELECT unnest(CAST(:vms AS bigint[])) AS vm_id, unnest(CAST(:hosts AS bigint[])) AS host_id) w"
            " WHERE v.id = w.vm_id"
        ),
        {"vms": [move.vm_id for move in moves], "hosts": [move.host_id for move in moves]},
    )


def _migrations_of(connection: Connection, vm_ids: Sequence[int]) -> Sequence[Row[Any]]:
    """Return the unfinished migrations of these VMs that claim a host. A VM has at most one."""
    return connection.execute(
        text(
            "SELECT j.uuid AS migration, v.id AS vm_id, v.uuid AS vm_uuid, x.host_id,"
            " h.fenced IS NOT NULL AS is_off FROM virtual_machines v"
            " JOIN async_jobs j ON j.instance_id = v.id AND j.instance_type = 'VirtualMachine' AND j.status = 0"
            " JOIN host_claims x ON x.consumer = j.uuid AND x.consumer_kind = 1 JOIN hosts h ON h.id = x.host_id"
            " WHERE v.id = ANY(:vms) ORDER BY v.id"
        ),
        {"vms": list(vm_ids)},
    ).all()
