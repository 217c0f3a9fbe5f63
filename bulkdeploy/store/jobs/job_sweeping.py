"""The jobs that the sweeper handles: jobs that were dropped, lost, late or old. Several sweepers may run.

The statement that finds a job to run again also writes its outbox entry. For a queued job, ``retry_at`` is the time
at which its message was last sent again. A ``retry_at`` further in the future than any statement writes was written
before the database's clock was set back, and counts as past.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.jobs.job_leases import BUSY, HAS_CAPACITY, LEASE_OVER, DriverLimits
from bulkdeploy.store.jobs.jobs import FIRST
from bulkdeploy.store.jobs.outbox import QUEUE_OF_AGAIN, TO_OUTBOX, JobQueues

LOST_AFTER_S = 5
"""A queued job this old whose queue is empty was lost: workers take a lease milliseconds after a message."""

LONG_AGO_S = -3600
"""What is sent again does not wait for a writer to send it: its outbox rows are as old as this."""

OVERTAKEN_AFTER_S = 3600
"""One whose queue is not empty is sent again after this: it may just wait its turn."""


def _sql(statement: str) -> TextClause:
    for name, part in (
        ("$to_outbox", TO_OUTBOX),
        ("$queue", QUEUE_OF_AGAIN),
        ("$first", FIRST),
        ("$busy", BUSY),
        ("$has_capacity", HAS_CAPACITY),
        ("$lease_over", LEASE_OVER),
    ):
        statement = statement.replace(name, part)
    return text(statement)


def _names(job_queues: JobQueues) -> dict[str, Any]:
    return {**job_queues.parameters(), "after": LONG_AGO_S}


_REQUEUE = _sql(
    "WITH due AS (SELECT id FROM async_jobs j WHERE status = 0 AND ((phase = 'running' AND $lease_over)"
    "   OR (phase = 'waiting' AND (retry_at <= now() OR retry_at > now() + interval '1 hour') AND $first))"
    "   ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED),"
    " again AS (UPDATE async_jobs j SET phase = 'queued', lease_until = NULL, host_id = NULL,"
    "   lost_leases = lost_leases + (phase = 'running')::int, retry_at = now() FROM due WHERE j.id = due.id"
    "   RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox"
)


def requeue_dropped(connection: Connection, job_queues: JobQueues, most: int) -> int:
    """Queue jobs whose lease expired and jobs whose waiting time ended. Return their number."""
    return connection.execute(_REQUEUE, {**_names(job_queues), "most": most}).rowcount


_LOST = _sql(
    "WITH due AS (SELECT again.id FROM async_jobs again LEFT JOIN deployments d ON d.id = again.deployment_id"
    "   WHERE again.status = 0 AND again.phase = 'queued'"
    "   AND NOT EXISTS (SELECT FROM outbox o WHERE o.job_id = again.id)"
    "   AND (coalesce(again.retry_at, again.created) > now() + interval '1 minute'"
    "     OR coalesce(again.retry_at, again.created) < now() - make_interval(secs =>"
    "       CASE WHEN $queue = ANY(CAST(:empty AS text[])) THEN :lost ELSE :overtaken END))"
    "   ORDER BY again.id LIMIT :most FOR UPDATE OF again SKIP LOCKED),"
    " again AS (UPDATE async_jobs j SET retry_at = now() FROM due WHERE j.id = due.id"
    "   RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox"
)


def requeue_lost(connection: Connection, job_queues: JobQueues, empty_queues: Collection[str], most: int) -> int:
    """Send queued jobs again whose message was lost, and return their number.

    A message that is neither in the outbox nor in its queue was lost, or a worker is about to lease its job. If the
    queue is not empty, this cannot be known, and the job is sent again after OVERTAKEN_AFTER_S.
    """
    return connection.execute(
        _LOST,
        {
            **_names(job_queues),
            "empty": list(empty_queues),
            "most": most,
            "lost": LOST_AFTER_S,
            "overtaken": OVERTAKEN_AFTER_S,
        },
    ).rowcount


_THROTTLED = _sql(
    "WITH asked AS (SELECT w.id, w.host_id, v.hypervisor,"
    "     row_number() OVER (PARTITION BY w.host_id ORDER BY w.id) AS place,"
    "     row_number() OVER (PARTITION BY v.hypervisor ORDER BY w.id) AS turn"
    "   FROM async_jobs w JOIN virtual_machines v ON v.id = w.instance_id"
    "   WHERE w.status = 0 AND w.phase = 'waiting' AND w.host_id IS NOT NULL),$busy,"
    " due AS (SELECT id FROM async_jobs WHERE id IN (SELECT asked.id FROM asked"
    "     LEFT JOIN busy_hosts ON busy_hosts.host_id = asked.host_id"
    "     LEFT JOIN busy_hypervisors ON busy_hypervisors.hypervisor = asked.hypervisor WHERE $has_capacity)"
    "   AND status = 0 AND phase = 'waiting' ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED),"
    " again AS (UPDATE async_jobs j SET phase = 'queued', retry_at = now(), host_id = NULL FROM due"
    "   WHERE j.id = due.id RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox"
)


def requeue_throttled(connection: Connection, job_queues: JobQueues, limits: DriverLimits, most: int) -> int:
    """Queue jobs that wait for the driver limit of their host, as far as the limits allow; return their number."""
    return connection.execute(_THROTTLED, {**_names(job_queues), **limits.parameters(), "most": most}).rowcount


_OVERDUE = _sql(
    "WITH due AS (SELECT id FROM async_jobs j WHERE status = 0 AND attempts > 0"
    "   AND started < now() - make_interval(mins => :minutes)"
    "   AND NOT (phase = 'running' AND lease_until >= now()) AND (progress -> 'overdue') IS NULL"
    "   ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED),"
    " again AS (UPDATE async_jobs j SET phase = 'queued', lease_until = NULL,"
    "   host_id = NULL, lost_leases = lost_leases + (phase = 'running')::int,"
    "   retry_at = now(), progress = coalesce(progress, '{}') || jsonb_build_object('overdue', CAST(:why AS text))"
    "   FROM due WHERE j.id = due.id RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox"
)


def requeue_overdue(connection: Connection, job_queues: JobQueues, *, why: str, minutes: int, most: int) -> int:
    """Queue jobs that began at least ``minutes`` ago and are not leased, so that workers end them.

    A worker that gets such a job cleans up and fails the job with the reason ``why``. Returns the number of jobs.
    """
    return connection.execute(
        _OVERDUE, {**_names(job_queues), "why": why, "minutes": minutes, "most": most}
    ).rowcount


_CLOCK = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


def read_clock(connection: Connection) -> float:
    """Return the current time of the database's clock, in seconds since the epoch."""
    return float(connection.execute(_CLOCK).scalar_one())


_STUCK = text(
    "SELECT id, uuid, kind, lease_fence, user_id, instance_type, instance_id, deployment_id FROM async_jobs"
    " WHERE status = 0 AND attempts = 0 AND kind = ANY(:kinds)"
    " AND created < now() - make_interval(mins => :minutes)"
    " AND NOT EXISTS (SELECT FROM async_jobs r WHERE r.status = 0 AND r.phase = 'running'"
    "   AND r.lease_until >= now())"
    " AND NOT EXISTS (SELECT FROM async_jobs f WHERE f.status <> 0"
    "   AND f.completed >= now() - make_interval(mins => :minutes))"
    " ORDER BY id LIMIT :most"
)


def read_stuck(connection: Connection, kinds: Collection[str], *, minutes: int, most: int) -> list[Row[Any]]:
    """Return jobs that were never leased, if no job has been leased for the same time.

    Only jobs of these kinds that are at least ``minutes`` old are returned, so no worker is running. A job in a
    queue that moves is not stuck, however long the queue is.
    """
    return list(connection.execute(_STUCK, {"kinds": list(kinds), "minutes": minutes, "most": most}))


_EXPIRE = text(
    "DELETE FROM async_jobs WHERE id IN (SELECT id FROM async_jobs WHERE status <> 0"
    "   AND completed < now() - make_interval(mins => :minutes) ORDER BY completed LIMIT :most"
    "   FOR UPDATE SKIP LOCKED)"
)


def delete_expired(connection: Connection, *, minutes: int, most: int) -> int:
    """Delete at most ``most`` jobs that finished at least ``minutes`` ago, and return their number."""
    return connection.execute(_EXPIRE, {"minutes": minutes, "most": most}).rowcount


_DUE_TO_EXPUNGE = (
    "SELECT v.id, v.uuid, v.account_id, v.user_id FROM virtual_machines v WHERE v.id IN ("
    "   SELECT id FROM virtual_machines WHERE removed IS NULL AND (compute_released OR gone)"
    "     AND ((state = 'Destroyed' AND updated < now() - make_interval(secs => :delay))"
    "       OR (state = 'Expunging' AND updated < now() - make_interval(secs => :again)))"
    "   UNION SELECT o.id FROM accounts a JOIN virtual_machines o ON o.account_id = a.id"
    "     WHERE a.removed IS NOT NULL AND o.removed IS NULL)"
    " AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.status + 0 = 0"
    "   AND j.instance_type = 'VirtualMachine')"
    " AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.status = 2"
    "   AND j.instance_type = 'VirtualMachine' AND j.completed >= now() - make_interval(secs => :again))"
)
_LOCK_DUE = text(f"{_DUE_TO_EXPUNGE} ORDER BY v.id LIMIT :most FOR UPDATE OF v SKIP LOCKED")
_STILL_DUE = text(f"{_DUE_TO_EXPUNGE} AND v.id = ANY(CAST(:locked AS bigint[])) ORDER BY v.id")


def lock_vms_to_expunge(connection: Connection, *, delay_s: int, again_s: int, most: int) -> list[Row[Any]]:
    """Lock and return the VMs that must be expunged now.

    These are VMs that were destroyed at least ``delay_s`` seconds ago, VMs whose owner was deleted, and VMs whose
    removal has not succeeded yet. VMs with an unfinished job, or with a job that failed less than ``again_s``
    seconds ago, are omitted. The VMs are checked a second time under their locks, because another sweeper may have
    created a job after the locking statement began, and a row that was only locked is not checked again by it.
    """
    ages = {"delay": delay_s, "again": again_s}
    locked = [row.id for row in connection.execute(_LOCK_DUE, {**ages, "most": most})]
    return list(connection.execute(_STILL_DUE, {**ages, "locked": int_array(locked)})) if locked else []
