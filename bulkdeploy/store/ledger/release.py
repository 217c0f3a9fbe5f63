"""Releasing the resources of VMs: host claims, volumes and their capacity, addresses, counts.

All functions process sets of VMs and may be repeated: resources that were released before are skipped. They run in
the caller's transaction and use the lock order (hosts, pools, ranges, counts, rows).
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.store.accounts.resource_counts import subtract_amounts
from bulkdeploy.store.ledger.addresses import release_addresses_of
from bulkdeploy.store.ledger.ledger import release_hosts_of, release_pools_of
from bulkdeploy.store.ledger.volume_removal import destroy_volumes


def release_hosts(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Release the host claims of stopped VMs, and record the host as each VM's last host."""
    uuids = connection.execute(
        text("SELECT uuid FROM virtual_machines WHERE id = ANY(:vms)"), {"vms": list(vm_ids)}
    ).scalars()
    release_hosts_of(connection, list(uuids))
    connection.execute(
        text(
            "UPDATE virtual_machines SET last_host_id = host_id, host_id = NULL, updated = now()"
            " WHERE id = ANY(:vms) AND host_id IS NOT NULL"
        ),
        {"vms": list(vm_ids)},
    )


def release_planned_hosts(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Release the hosts on which Stopped VMs were to start but never ran. VMs in other states are skipped."""
    never_ran = connection.execute(
        text(
            "SELECT id, uuid FROM virtual_machines"
            " WHERE id = ANY(:vms) AND state = 'Stopped' AND host_id IS NOT NULL"
        ),
        {"vms": list(vm_ids)},
    ).all()
    release_hosts_of(connection, [vm.uuid for vm in never_ran])
    connection.execute(
        text("UPDATE virtual_machines SET host_id = NULL, updated = now() WHERE id = ANY(:vms)"),
        {"vms": [vm.id for vm in never_ran]},
    )


def release_compute(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Release the host and the user_vm, cpu and memory counts of destroyed VMs.

    Volumes and addresses are kept until the VM is expunged (cloudstack-protocol.md 7.3).
    """
    release_hosts(connection, vm_ids)
    subtract_amounts(connection, _mark_compute_released(connection, vm_ids))


def release_vms(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Release all resources of VMs finally, after a failed deployment or when the VMs are expunged.

    The caller sets the state of the VMs' rows. NICs, and volumes that were created with the VMs, are marked as
    removed. Separately created volumes are detached with their storage and counts.
    """
    volumes = connection.execute(
        text("SELECT uuid FROM volumes WHERE vm_id = ANY(:vms) AND NOT standalone AND removed IS NULL"),
        {"vms": list(vm_ids)},
    ).scalars()
    volume_uuids = list(volumes)
    release_hosts(connection, vm_ids)
    release_pools_of(connection, volume_uuids)
    release_addresses_of(connection, vm_ids)
    freed = _mark_compute_released(connection, vm_ids)
    for account_id, amounts in _mark_volumes_removed(connection, volume_uuids).items():
        freed[account_id] = freed.get(account_id, ResourceAmounts()).plus(amounts)
    subtract_amounts(connection, freed)
    _detach_volumes(connection, vm_ids)


def _mark_compute_released(connection: Connection, vm_ids: Sequence[int]) -> dict[int, ResourceAmounts]:
    """Mark the VMs as released, and return the counts to subtract by account. VMs marked before are skipped."""
    rows = connection.execute(
        text(
            "WITH freed AS (UPDATE virtual_machines SET compute_released = true WHERE id = ANY(:vms)"
            "   AND NOT compute_released RETURNING account_id, cpu_number, memory_mib)"
            " SELECT account_id, count(*) AS vms, sum(cpu_number) AS cpu, sum(memory_mib) AS memory"
            " FROM freed GROUP BY account_id"
        ),
        {"vms": list(vm_ids)},
    )
    return {
        row.account_id: ResourceAmounts(user_vm=row.vms, cpu=int(row.cpu), memory_mib=int(row.memory))
        for row in rows
    }


def _mark_volumes_removed(connection: Connection, volume_uuids: Sequence[UUID]) -> dict[int, ResourceAmounts]:
    """Mark volumes as removed, and return the number and total size of the newly removed volumes, by account."""
    rows = connection.execute(
        text(
            "WITH freed AS (UPDATE volumes SET state = 'Expunged', removed = now() WHERE uuid = ANY(:volumes)"
            "   AND removed IS NULL RETURNING account_id, size_bytes)"
            " SELECT account_id, count(*) AS volumes, sum(size_bytes) AS size FROM freed GROUP BY account_id"
        ),
        {"volumes": list(volume_uuids)},
    )
    return {
        row.account_id: ResourceAmounts(volume=row.volumes, primary_storage_bytes=int(row.size)) for row in rows
    }


def _detach_volumes(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Detach the separately created volumes from these VMs, and delete the volumes whose owner was deleted."""
    detached = connection.execute(
        text(
            "UPDATE volumes v SET vm_id = NULL, device_id = NULL, attached = NULL,"
            "   state = CASE v.state WHEN 'Attaching' THEN 'Ready' ELSE v.state END FROM accounts a"
            " WHERE v.vm_id = ANY(:vms) AND v.standalone AND v.removed IS NULL AND a.id = v.account_id"
            " RETURNING v.id, a.removed IS NOT NULL AS is_ownerless"
        ),
        {"vms": list(vm_ids)},
    ).all()
    ownerless = [row.id for row in detached if row.is_ownerless]
    if ownerless:
        destroy_volumes(connection, ownerless)
