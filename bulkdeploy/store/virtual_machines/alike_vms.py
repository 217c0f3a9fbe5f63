"""VMs that are equal for the rules of a bulk operation, counted by PostgreSQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from bulkdeploy.store.database.arrays import int_array


@dataclass(frozen=True, slots=True)
class AlikeVms:
    """VMs with the same owner, state, hypervisor and delete protection. A VM with snapshots forms its own group.

    Attributes:
        vm: the id, uuid and name of the oldest of these VMs, the shared columns, and ``has_job`` as ``lock_vms``
            returns it.
        count: the number of VMs.
        oldest_ids: the ids of the oldest VMs, at most as many as the caller requested.
    """

    vm: Row[Any]
    count: int
    oldest_ids: Sequence[int]


_ALIKE = text(
    "SELECT r.id, r.uuid, r.name, r.account_id, r.state, r.hypervisor, r.delete_protection, r.removed, g.has_job,"
    " g.vm_count, ARRAY(SELECT i.id FROM unnest(g.ids) i (id) ORDER BY i.id LIMIT :most) AS oldest_ids"
    " FROM (SELECT min(id) AS first_id, has_job, count(*) AS vm_count, array_agg(id) AS ids"
    "  FROM (SELECT v.id, v.account_id, v.state, v.hypervisor, v.delete_protection, v.removed IS NULL AS is_live,"
    "    v.id IN (SELECT j.instance_id FROM async_jobs j WHERE j.instance_type = 'VirtualMachine' AND j.status = 0)"
    "      AS has_job,"
    "    CASE WHEN v.id IN (SELECT s.vm_id FROM vm_snapshots s WHERE s.removed IS NULL) THEN v.id END AS alone"
    "   FROM virtual_machines v WHERE v.id = ANY(CAST(:vms AS bigint[]))) pending"
    "  GROUP BY account_id, state, hypervisor, delete_protection, is_live, has_job, alone) g"
    " JOIN virtual_machines r ON r.id = g.first_id ORDER BY r.id"
)


def read_alike_vms(connection: Connection, vm_ids: Sequence[int], most: int) -> Sequence[AlikeVms]:
    """Return VMs in groups of equal VMs, with the ids of the ``most`` oldest VMs of each group.

    No row is locked.
    """
    rows = connection.execute(_ALIKE, {"vms": int_array(vm_ids), "most": most})
    return [AlikeVms(row, row.vm_count, row.oldest_ids) for row in rows]


_NAMES = text(
    "SELECT v.uuid AS id, v.name, v.state FROM virtual_machines v"
    " WHERE v.id = ANY(CAST(:vms AS bigint[])) ORDER BY v.id"
)


def read_names(connection: Connection, vm_ids: Sequence[int]) -> Sequence[dict[str, Any]]:
    """Return the uuid (as ``id``), name and state of VMs, in ascending order of their ids."""
    return [dict(row) for row in connection.execute(_NAMES, {"vms": int_array(vm_ids)}).mappings()]
