"""Hosts that enter maintenance: their resource state, and the VMs that must still leave.

Changing a resource state locks the row that claims lock. Therefore each claim that found the host Enabled was
committed before the change, and is visible after it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.jobs import InstanceType, JobStatus
from bulkdeploy.store.database.arrays import int_array


def lock_host(connection: Connection, host_id: int) -> Row[Any]:
    """Lock a host and its capacity row, which all claims of the host lock, and return the host's row."""
    connection.execute(text("SELECT FROM host_capacity WHERE host_id = :id FOR UPDATE"), {"id": host_id})
    return connection.execute(text("SELECT * FROM hosts WHERE id = :id FOR UPDATE"), {"id": host_id}).one()


def holds_vms(connection: Connection, host_id: int) -> bool:
    """Return whether any VM or migration has a claim on the host. The caller has locked the host."""
    return bool(
        connection.execute(
            text("SELECT EXISTS (SELECT FROM host_claims WHERE host_id = :id)"), {"id": host_id}
        ).scalar_one()
    )


def set_resource_state(
    connection: Connection,
    host_ids: Sequence[int],
    state: HostResourceState,
    *,
    sources: Collection[HostResourceState] = tuple(HostResourceState),
) -> None:
    """Change the resource state of the hosts whose current resource state is one of ``sources`` to ``state``."""
    ids = {"ids": int_array(sorted(host_ids))}
    connection.execute(
        text("SELECT FROM host_capacity WHERE host_id = ANY(CAST(:ids AS bigint[])) ORDER BY host_id FOR UPDATE"),
        ids,
    )
    connection.execute(
        text(
            "UPDATE hosts SET resource_state = :state WHERE id = ANY(CAST(:ids AS bigint[]))"
            " AND resource_state = ANY(:sources)"
        ),
        {**ids, "state": state.value, "sources": [source.value for source in sources]},
    )


def is_enabled(connection: Connection, host_id: int) -> bool:
    """Return whether the resource state of the host is Enabled, that is, whether new VMs may use the host."""
    state = connection.execute(
        text("SELECT resource_state FROM hosts WHERE id = :id"), {"id": host_id}
    ).scalar_one()
    return bool(state == HostResourceState.ENABLED)


def read_host_names(connection: Connection, host_ids: Collection[int]) -> dict[int, str]:
    """Return the names of hosts by id. Removed hosts are omitted."""
    rows = connection.execute(
        text("SELECT id, name FROM hosts WHERE id = ANY(CAST(:ids AS bigint[])) AND removed IS NULL"),
        {"ids": int_array(host_ids)},
    )
    return {row.id: row.name for row in rows}


def unfinished_host_jobs(connection: Connection, host_id: int) -> list[int]:
    """Return the ids of the unfinished jobs of a host, in ascending order."""
    rows = connection.execute(
        text("SELECT id FROM async_jobs WHERE instance_id = :host AND instance_type = :type AND status = 0"),
        {"host": host_id, "type": InstanceType.HOST.value},
    )
    return sorted(rows.scalars())


@dataclass(frozen=True, slots=True)
class LeavingVms:
    """The VMs that are still on a host that a job empties, and the progress of moving them.

    Attributes:
        claims: the number of claims on the host, of VMs and of migrations. If it is 0, the host is empty.
        to_move: the ids of the VMs on the host for which the job has not created a job yet.
        moving: the number of unfinished jobs that the job has created.
        failures: for each VM on the host whose last such job failed, the error text.
    """

    claims: int
    to_move: Sequence[int]
    moving: int
    failures: Sequence[str]


def look_at_leaving(connection: Connection, host_id: int, job_id: int) -> LeavingVms:
    """Return the VMs that are still on the host, and the progress of the job that empties the host."""
    both = {"host": host_id, "job": job_id}
    counts = connection.execute(
        text(
            "SELECT (SELECT count(*) FROM host_claims WHERE host_id = :host) AS claims,"
            " (SELECT count(*) FROM async_jobs WHERE parent_id = :job AND status = 0) AS moving"
        ),
        both,
    ).one()
    vms = connection.execute(
        text(
            "SELECT v.id, c.status, c.reason FROM virtual_machines v LEFT JOIN LATERAL ("
            "   SELECT j.status, CAST(j.result AS jsonb) ->> 'errortext' AS reason FROM async_jobs j"
            "   WHERE j.parent_id = :job AND j.instance_id = v.id"
            "   ORDER BY j.id DESC LIMIT 1) c ON true WHERE v.host_id = :host ORDER BY v.id"
        ),
        both,
    ).all()
    return LeavingVms(
        counts.claims,
        [vm.id for vm in vms if vm.status is None],
        counts.moving,
        [vm.reason for vm in vms if vm.status == JobStatus.FAILED],
    )


def vms_on_host(connection: Connection, host_id: int) -> list[int]:
    """Return the ids of the VMs on a host, in ascending order."""
    rows = connection.execute(
        text("SELECT id FROM virtual_machines WHERE host_id = :host ORDER BY id"), {"host": host_id}
    )
    return list(rows.scalars())


def count_moves(connection: Connection, job_id: int) -> int:
    """Return the number of unfinished jobs that this job has created."""
    query = text("SELECT count(*) FROM async_jobs WHERE parent_id = :job AND status = 0")
    return int(connection.execute(query, {"job": job_id}).scalar_one())


def vms_with_child_jobs(connection: Connection, job_id: int) -> set[int]:
    """Return the ids of the VMs for which this job has created jobs."""
    query = text("SELECT instance_id FROM async_jobs WHERE parent_id = :job")
    return set(connection.execute(query, {"job": job_id}).scalars())


def lock_vms_to_move(connection: Connection, vm_ids: Sequence[int], most: int) -> list[Row[Any]]:
    """Lock and return at most ``most`` of these VMs, skipping VMs that other transactions have locked."""
    rows = connection.execute(
        text(
            "SELECT id, uuid, instance_name, host_id FROM virtual_machines WHERE id = ANY(CAST(:vms AS bigint[]))"
            " ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED"
        ),
        {"vms": int_array(vm_ids), "most": most},
    )
    return list(rows)


def submitter_of(connection: Connection, job_id: int) -> int:
    """Return the id of the account that submitted a job."""
    return int(
        connection.execute(text("SELECT account_id FROM async_jobs WHERE id = :id"), {"id": job_id}).scalar_one()
    )


_WAKE_WAITING = text(
    "WITH due AS (SELECT id FROM async_jobs WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 0"
    "   AND phase = 'waiting' ORDER BY id FOR UPDATE SKIP LOCKED),"
    " woken AS (UPDATE async_jobs j SET phase = 'queued', retry_at = now() FROM due WHERE j.id = due.id"
    "   RETURNING j.id, j.kind)"
    " INSERT INTO outbox (job_id, queue, kind) SELECT id, :queue, kind FROM woken"
    " ON CONFLICT (job_id) DO NOTHING RETURNING job_id, kind"
)


def wake_waiting(connection: Connection, job_ids: Collection[int], queue: str) -> list[tuple[int, str]]:
    """Queue the jobs out of ``job_ids`` that wait, through the outbox, and return their ids and kinds.

    Jobs that another transaction has locked are skipped; they continue when their waiting time ends.
    """
    rows = connection.execute(_WAKE_WAITING, {"ids": int_array(sorted(job_ids)), "queue": queue})
    return [(row.job_id, row.kind) for row in rows]
