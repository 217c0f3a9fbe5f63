"""Claims of a VM that moves: the migration (its job's uuid) holds the source, the VM the destination.

Which host a VM comes from stands in the migration's claim and nowhere else. Runs in the caller's transaction.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.store.ledger.ledger import ConsumerKind, release_hosts_of
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


def read_source(connection: Connection, migration: UUID) -> Row[Any] | None:
    """Return the host that a migration holds, or None if it holds none.

    The columns are id, uuid, name, ip_address, hypervisor, url and is_off: whether the host was declared off.
    """
    return connection.execute(
        text(
            "SELECT h.id, h.uuid, h.name, h.ip_address, h.hypervisor, h.url, h.fenced IS NOT NULL AS is_off"
            " FROM host_claims x JOIN hosts h ON h.id = x.host_id WHERE x.consumer = :migration"
        ),
        {"migration": migration},
    ).first()


def release_sources(connection: Connection, vm_ids: Sequence[int]) -> None:
    """These VMs have arrived: their migrations' claims are deleted, the hosts remembered as the last ones."""
    moves = _migrations_of(connection, vm_ids)
    release_hosts_of(connection, [move.migration for move in moves])
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
    release_hosts_of(connection, vm_uuids)
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
            " JOIN host_claims x ON x.consumer = j.uuid JOIN hosts h ON h.id = x.host_id"
            " WHERE v.id = ANY(:vms) ORDER BY v.id"
        ),
        {"vms": list(vm_ids)},
    ).all()
