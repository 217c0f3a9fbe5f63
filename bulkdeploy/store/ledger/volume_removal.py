"""Deleted volumes: hidden immediately, while their capacity is released after their removal from the pool.

A volume that was assigned to a pool may exist there. It remains in state Destroy until a sweeper has removed it
from the pool. Until then its claim remains, so that its space is not claimed again before it is free.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.store.accounts.resource_counts import subtract_amounts
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.ledger.ledger import release_pools_of

_DESTROY = text(
    "WITH gone AS (UPDATE volumes SET removed = now(),"
    "   state = CASE WHEN pool_id IS NULL THEN 'Expunged' ELSE 'Destroy' END,"
    "   removal_due = CASE WHEN pool_id IS NULL THEN NULL ELSE now() END"
    "   WHERE id = ANY(CAST(:volumes AS bigint[])) AND vm_id IS NULL AND removed IS NULL"
    "   RETURNING account_id, size_bytes)"
    " SELECT account_id, count(*) AS volumes, sum(size_bytes) AS size FROM gone GROUP BY account_id"
)


def destroy_volumes(connection: Connection, volume_ids: Sequence[int]) -> int:
    """Delete the volumes out of ``volume_ids`` that are attached to no VM, and return how many were deleted.

    Their amounts are subtracted from the owners' resource counts.
    """
    rows = connection.execute(_DESTROY, {"volumes": int_array(volume_ids)}).all()
    subtract_amounts(
        connection,
        {row.account_id: ResourceAmounts(volume=row.volumes, primary_storage_bytes=int(row.size)) for row in rows},
    )
    return sum(row.volumes for row in rows)


def data_volumes_of(connection: Connection, vm_id: int) -> set[int]:
    """Return the ids of a VM's live data volumes."""
    return set(
        connection.execute(
            text("SELECT id FROM volumes WHERE vm_id = :vm AND volume_type = 'DATADISK' AND removed IS NULL"),
            {"vm": vm_id},
        ).scalars()
    )


def owners_of_volumes(connection: Connection, volume_ids: Sequence[int]) -> dict[int, int]:
    """Return the id of the account that owns each volume, by volume id. Removed volumes are included."""
    rows = connection.execute(
        text("SELECT id, account_id FROM volumes WHERE id = ANY(CAST(:volumes AS bigint[]))"),
        {"volumes": int_array(volume_ids)},
    )
    return {row.id: row.account_id for row in rows}


_WITH_VMS = text(
    "UPDATE volumes SET vm_id = NULL, device_id = NULL, attached = NULL, standalone = true"
    " WHERE id = ANY(CAST(:volumes AS bigint[])) AND removed IS NULL AND NOT delete_protection"
    " AND (vm_id = ANY(CAST(:vms AS bigint[])) OR vm_id IS NULL) RETURNING id"
)


_SNAPSHOTS_OF = text(
    "UPDATE vm_snapshots SET removed = now() WHERE volume_id = ANY(CAST(:volumes AS bigint[])) AND removed IS NULL"
)


def destroy_volumes_with(connection: Connection, vm_ids: Sequence[int], volume_ids: Sequence[int]) -> None:
    """Delete these volumes, which are attached to these VMs or were detached by this transaction.

    Their snapshots, which are stored in the volumes, are deleted as well. Volumes that were protected after the
    request are kept.
    """
    wanted = {"vms": int_array(vm_ids), "volumes": int_array(volume_ids)}
    gone = list(connection.execute(_WITH_VMS, wanted).scalars())
    connection.execute(_SNAPSHOTS_OF, {"volumes": int_array(gone)})
    destroy_volumes(connection, gone)


_OF_ACCOUNTS = text(
    "SELECT id FROM volumes WHERE account_id = ANY(CAST(:accounts AS bigint[])) AND standalone AND vm_id IS NULL"
    " AND removed IS NULL ORDER BY id"
)
_ORPHANED = text(
    "SELECT id FROM volumes WHERE account_id IN (SELECT id FROM accounts WHERE removed IS NOT NULL) AND standalone"
    " AND vm_id IS NULL AND removed IS NULL ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED"
)


def destroy_volumes_of_accounts(connection: Connection, account_ids: Sequence[int]) -> None:
    """Delete the volumes of these accounts that are attached to no VM.

    Volumes of VMs are deleted with the VMs (``store.ledger.release``).
    """
    found = connection.execute(_OF_ACCOUNTS, {"accounts": int_array(account_ids)}).scalars().all()
    destroy_volumes(connection, found)


def destroy_orphaned_volumes(connection: Connection, *, most: int) -> int:
    """Delete at most ``most`` volumes whose VM was removed while their owner was being deleted.

    Returns the number of deleted volumes.
    """
    return destroy_volumes(connection, connection.execute(_ORPHANED, {"most": most}).scalars().all())


_DUE = text(
    "SELECT v.uuid, p.uuid AS pool_uuid, p.name AS pool_name, CASE WHEN p.hypervisor IS NOT NULL"
    "   THEN ARRAY[p.hypervisor] ELSE ARRAY(SELECT DISTINCT c.hypervisor FROM clusters c"
    "     WHERE c.zone_id = p.zone_id AND (p.cluster_id IS NULL OR c.id = p.cluster_id) ORDER BY 1)"
    "   END AS hypervisors"
    " FROM volumes v JOIN storage_pools p ON p.id = v.pool_id"
    " WHERE v.removal_due <= now() ORDER BY v.removal_due, v.id LIMIT :most"
)


def volumes_to_remove(connection: Connection, *, most: int) -> list[Row[Any]]:
    """Return at most ``most`` destroyed volumes that must be removed from their pools now, with the hypervisors."""
    return list(connection.execute(_DUE, {"most": most}))


_PUT_OFF = text(
    "UPDATE volumes SET removal_due = now() + make_interval(secs => :again)"
    " WHERE uuid = ANY(:volumes) AND removal_due IS NOT NULL"
)
_EXPUNGE = text(
    "UPDATE volumes SET state = 'Expunged', removal_due = NULL"
    " WHERE uuid = ANY(:volumes) AND removal_due IS NOT NULL"
)


def end_removals_of_volumes(
    connection: Connection, gone: Sequence[UUID], left: Sequence[UUID], *, again_s: float
) -> None:
    """Release the storage of the volumes ``gone``, and schedule the volumes ``left`` for another removal attempt.

    ``again_s`` is the number of seconds until this attempt.
    """
    release_pools_of(connection, gone)
    connection.execute(_EXPUNGE, {"volumes": list(gone)})
    connection.execute(_PUT_OFF, {"volumes": list(left), "again": again_s})
