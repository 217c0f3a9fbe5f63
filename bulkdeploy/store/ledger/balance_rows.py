"""The rows for balancing a zone: its VMs with claims and bindings, and the results of balance jobs."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

_VMS = text(
    "SELECT v.id, v.uuid, v.state, x.host_id, x.cpu_mhz AS claimed_mhz, x.memory_mib, x.account_id, v.hypervisor,"
    " v.cpu_number, v.cpu_mhz, o.host_tags, t.template_tag, o.deployment_planner, d.bulk,"
    " d.config ->> 'planner' AS planner, r.pod_id AS bound_pod_id, b.cluster_id AS bound_cluster_id,"
    " coalesce(b.to_host, false) AS bound_to_host,"
    " EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.instance_type = 'VirtualMachine'"
    "   AND j.status = 0) AS has_job"
    " FROM host_claims x JOIN hosts h ON h.id = x.host_id AND h.zone_id = :zone"
    " JOIN virtual_machines v ON v.uuid = x.consumer JOIN service_offerings o ON o.id = v.service_offering_id"
    " JOIN templates t ON t.id = v.template_id JOIN deployments d ON d.id = v.deployment_id"
    " LEFT JOIN LATERAL (SELECT max(p.cluster_id) FILTER (WHERE p.scope = 'CLUSTER') AS cluster_id,"
    "   bool_or(p.scope = 'HOST') AS to_host FROM volumes w JOIN storage_pools p ON p.id = w.pool_id"
    "   WHERE w.vm_id = v.id AND w.removed IS NULL) b ON true"
    " LEFT JOIN LATERAL (SELECT i.pod_id FROM nics n JOIN ip_ranges i ON i.id = n.ip_range_id"
    "   WHERE n.vm_id = v.id AND n.removed IS NULL AND i.pod_id IS NOT NULL LIMIT 1) r ON true"
    " WHERE x.consumer_kind = 0 ORDER BY v.id"
)


def read_vms_on_hosts(connection: Connection, zone_id: int) -> list[Row[Any]]:
    """Return every VM with a claim on a host of the zone, in any state, ordered by id.

    The columns ``bound_...`` are the hosts, clusters and pods to which the VM's volumes and its address bind the
    VM. ``has_job`` tells whether the VM has an unfinished job.
    """
    return list(connection.execute(_VMS, {"zone": zone_id}))


def read_groups_of(connection: Connection, vm_ids: Collection[int]) -> list[Row[Any]]:
    """Return the affinity groups of these VMs: vm_id, group id, type."""
    return list(
        connection.execute(
            text(
                "SELECT m.vm_id, g.id, g.affinity_type FROM vm_affinity_groups m"
                " JOIN affinity_groups g ON g.id = m.affinity_group_id"
                " WHERE m.vm_id = ANY(CAST(:vms AS bigint[])) AND g.removed IS NULL ORDER BY m.vm_id, g.id"
            ),
            {"vms": list(vm_ids)},
        )
    )


def has_dedications(connection: Connection) -> bool:
    """Return whether any zone, pod, cluster or host is dedicated to an account or a domain."""
    return bool(connection.execute(text("SELECT EXISTS (SELECT FROM dedicated_resources)")).scalar_one())


def names_of(
    connection: Connection, vm_ids: Collection[int], host_ids: Collection[int]
) -> tuple[dict[int, Row[Any]], dict[int, Row[Any]]]:
    """Return the uuid and name of VMs, and the uuid and name of hosts, both by internal id."""
    vms = connection.execute(
        text("SELECT id, uuid, instance_name, name FROM virtual_machines WHERE id = ANY(CAST(:ids AS bigint[]))"),
        {"ids": list(vm_ids)},
    )
    hosts = connection.execute(
        text("SELECT id, uuid, name FROM hosts WHERE id = ANY(CAST(:ids AS bigint[]))"), {"ids": list(host_ids)}
    )
    return {row.id: row for row in vms}, {row.id: row for row in hosts}


def read_balancing(connection: Connection, job_id: int) -> Row[Any]:
    """Count all, the running and the failed moves of a balancing job, and list the VMs of the failed moves."""
    return connection.execute(
        text(
            "SELECT count(*) AS moves, count(*) FILTER (WHERE status = 0) AS moving,"
            " count(*) FILTER (WHERE status = 2) AS failed,"
            " coalesce(array_agg(instance_id) FILTER (WHERE status = 2), '{}') AS failed_vms"
            " FROM async_jobs WHERE parent_id = :job"
        ),
        {"job": job_id},
    ).one()


def balancing_rows(connection: Connection, job_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the results of balancing jobs by job id.

    A result has the zone, its score before and after, and the numbers of moves and failed moves.
    """
    rows = connection.execute(
        text(
            "SELECT j.id, j.instance_uuid, j.progress, count(c.id) AS moves,"
            " count(c.id) FILTER (WHERE c.status = 2) AS failed FROM async_jobs j"
            " LEFT JOIN async_jobs c ON c.parent_id = j.id WHERE j.id = ANY(CAST(:jobs AS bigint[])) GROUP BY j.id"
        ),
        {"jobs": list(job_ids)},
    )
    return {
        row.id: {
            "zoneid": str(row.instance_uuid),
            "scorebefore": (row.progress or {}).get("before"),
            "scoreafter": (row.progress or {}).get("after"),
            "moves": row.moves,
            "failed": row.failed,
        }
        for row in rows
    }
