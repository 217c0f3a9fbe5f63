"""Claims of a VM that moves: the migration (its job's uuid) holds the source, the VM the destination.

Which host a VM comes from stands in the migration's claim and nowhere else. Before it begins, a migration may hold
a reservation of the destination instead; every end of the job gives the reservation back. Runs in the caller's
transaction.
"""

from collections.abc import Sequence
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


def take_over_source(connection: Connection, vm_uuid: UUID, migration: UUID) -> None:
    """Let the migration hold what the VM held, for the VM to claim its destination."""
    connection.execute(
        _GIVE_CLAIM, {"givers": [vm_uuid], "takers": [migration], "kind": ConsumerKind.MIGRATION.value}
    )


_PAIR = (
    "SELECT r.consumer AS job, c.consumer AS vm, c.host_id AS source, h.id AS destination, h.cluster_id, h.pod_id"
    " FROM host_claims r JOIN hosts h ON h.id = r.host_id AND h.state = 'Up' AND h.resource_state = 'Enabled'"
    "   AND h.removed IS NULL"
    " JOIN host_claims c ON c.consumer = :vm AND (c.cpu_mhz, c.memory_mib) = (r.cpu_mhz, r.memory_mib)"
    " WHERE r.consumer = :job AND r.consumer_kind = :reservation"
)
"""The claims of a VM and of the migration that reserved a host for it, if the VM may move there now."""

_RESERVED = text(_PAIR)

_BEGIN_RESERVED = text(
    f"WITH pair AS ({_PAIR}),"  # noqa: S608 - a constant
    " swapped AS (UPDATE host_claims x SET"
    "     host_id = CASE x.consumer WHEN pair.vm THEN pair.destination ELSE pair.source END,"
    "     consumer_kind = CASE x.consumer WHEN pair.vm THEN x.consumer_kind ELSE :migration END"
    "   FROM pair WHERE x.consumer IN (pair.vm, pair.job))"
    " UPDATE virtual_machines v SET host_id = pair.destination, cluster_id = pair.cluster_id, pod_id = pair.pod_id,"
    "   updated = now() FROM pair WHERE v.uuid = pair.vm RETURNING v.id"
)


def begin_reserved(connection: Connection, vm_uuid: UUID, migration: UUID) -> bool:
    """Let the VM hold the destination that its migration reserved, and the migration hold the source.

    Returns False and changes nothing if the migration reserved no host, or the host is not Up and Enabled any more.

    Raises:
        TransactionConflict: the host changed at this moment; repeat the whole transaction.
    """
    named = {"vm": vm_uuid, "job": migration, "reservation": ConsumerKind.RESERVATION.value}
    reserved = connection.execute(_RESERVED, named).first()
    if reserved is None:
        return False
    lock_hosts(connection, np.array([reserved.destination], dtype=np.int64))
    begun = {**named, "migration": ConsumerKind.MIGRATION.value}
    if connection.execute(_BEGIN_RESERVED, begun).first() is None:
        raise TransactionConflict
    return True


_RESERVATIONS = text(
    "SELECT j.uuid FROM async_jobs j JOIN host_claims x ON x.consumer = j.uuid AND x.consumer_kind = :reservation"
    " WHERE j.instance_id = ANY(:vms) AND j.instance_type = 'VirtualMachine' AND j.status = 0"
)


def _reservations_of(connection: Connection, vm_ids: Sequence[int]) -> list[UUID]:
    wanted = {"vms": list(vm_ids), "reservation": ConsumerKind.RESERVATION.value}
    return list(connection.execute(_RESERVATIONS, wanted).scalars())


def release_reservations(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Give back the hosts that migrations of these VMs reserved and will not use."""
    release_hosts_of(connection, _reservations_of(connection, vm_ids))


def read_source(connection: Connection, migration: UUID) -> Row[Any] | None:
    """Return the host that a migration holds, or None if it holds none.

    The columns are id, uuid, name, ip_address, hypervisor, url and is_off: whether the host was declared off.
    """
    return connection.execute(
        text(
            "SELECT h.id, h.uuid, h.name, h.ip_address, h.hypervisor, h.url, h.fenced IS NOT NULL AS is_off"
            " FROM host_claims x JOIN hosts h ON h.id = x.host_id"
            " WHERE x.consumer = :migration AND x.consumer_kind = 1"
        ),
        {"migration": migration},
    ).first()


def release_sources(connection: Connection, vm_ids: Sequence[int]) -> None:
    """These VMs have arrived: their migrations' claims are deleted, the hosts remembered as the last ones."""
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
    """These VMs stay where they were: destinations are given back, and the VMs hold their sources again.

    VMs whose source was declared off hold no host afterwards, because their guests do not run there any more.
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
    """Release every host that these VMs and their migrations hold: their guests run nowhere.

    The hosts that they came from are remembered as the last ones.
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
    """The migrations under way of these VMs that hold a host; a VM has at most one."""
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
