"""Acquiring and returning leases, with limits on concurrent jobs per host and per hypervisor.

While a job is leased, its row names the host of its VM. Leases of one host are acquired by one transaction at a
time (an advisory lock per host), so that any number of workers can count the leases and comply with the limit. A
job beyond the limit waits: its row names the host for which it waits, no worker requests the job again, and the end
of a job of that host wakes it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, TextClause, text

from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.jobs.jobs import CANCELLED, FIRST, LeasedJob
from bulkdeploy.store.jobs.outbox import TO_OUTBOX, JobQueues, Unsent
from bulkdeploy.store.locks import Lock, take_lock

RETRY_S = 2
"""A job that waits for another of its VM is woken when that ends; this is the net below."""

LEFT_FOR_S = 5
"""A job that this release does not know is offered again after this: to another worker, with some luck."""


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """The limits on jobs that use drivers at the same time, over all workers. 0 means no limit.

    Attributes:
        per_host: the maximum number of jobs of one host.
        per_hypervisor: the maximum number of jobs of one hypervisor type.
        crash_limit: a job whose workers ended abruptly this often runs only when no other such job runs in its
            process, because its next crash is its last (``job.lost.worker.max``) and must not affect other jobs.
            Jobs with fewer crashes run side by side.
    """

    per_host: int = 0
    per_hypervisor: int = 0
    crash_limit: int = 4

    @classmethod
    def of(cls, configuration: Configuration) -> "DriverLimits":
        """Return the limits according to the current settings."""
        return cls(
            configuration.number("driver.jobs.per.host.max"),
            configuration.number("driver.jobs.per.hypervisor.max"),
            max(1, configuration.number("job.lost.worker.max") - 1),
        )

    def parameters(self) -> Mapping[str, int]:
        """Return the SQL parameters of the statements that apply the limits."""
        return {"per_host": self.per_host, "per_hypervisor": self.per_hypervisor}


LEASE_OVER = "(j.lease_until < now() OR j.lease_until > now() + interval '1 hour')"
"""No lease is that long (setting ``lease_seconds``): the database's clock was set back, and nobody renews it."""

_DUE = (
    "j.status + 0 = 0 AND (j.phase = 'queued' OR (j.phase = 'waiting' AND j.retry_at <= now())"
    " OR (j.phase = 'running' AND $lease_over))".replace("$lease_over", LEASE_OVER)
)
"""``+ 0``: as in ``store.jobs.jobs.FIRST``."""

BUSY = (
    " busy_hosts AS MATERIALIZED (SELECT b.host_id, count(*) AS jobs FROM async_jobs b WHERE :per_host > 0"
    "   AND b.status = 0 AND b.phase = 'running' AND b.host_id IN (SELECT host_id FROM asked)"
    "   AND b.id NOT IN (SELECT id FROM asked) GROUP BY b.host_id),"
    " busy_hypervisors AS MATERIALIZED (SELECT v.hypervisor, count(*) AS jobs FROM async_jobs b"
    "   JOIN virtual_machines v ON v.id = b.instance_id WHERE :per_hypervisor > 0 AND b.status = 0"
    "   AND b.phase = 'running' AND b.host_id IS NOT NULL AND b.id NOT IN (SELECT id FROM asked)"
    "   GROUP BY v.hypervisor)"
)
"""How many jobs run of the hosts, and of the hypervisor types, that ``asked`` names; not counting these.

Counted once per batch and not once per job of it, whatever the planner expects of ``asked``.
"""

HAS_CAPACITY = (
    "(:per_host = 0 OR asked.host_id IS NULL OR asked.place + coalesce(busy_hosts.jobs, 0) <= :per_host)"
    " AND (:per_hypervisor = 0 OR asked.host_id IS NULL"
    "   OR asked.turn + coalesce(busy_hypervisors.jobs, 0) <= :per_hypervisor)"
)
"""``place`` and ``turn`` number the jobs of ``asked`` per host and per hypervisor type."""


def _sql(statement: str) -> TextClause:
    for name, part in (
        ("$due", _DUE),
        ("$first", FIRST),
        ("$busy", BUSY),
        ("$has_capacity", HAS_CAPACITY),
        ("$to_outbox", TO_OUTBOX),
        ("$cancelled", CANCELLED),
    ):
        statement = statement.replace(name, part)
    return text(statement)


_LOCK_HOSTS = text(
    "SELECT count(pg_advisory_xact_lock(:space, host)) FROM (SELECT DISTINCT CASE WHEN :per_hypervisor > 0 THEN 0"
    "   ELSE CAST(v.host_id AS integer) END AS host FROM async_jobs j"
    "   JOIN virtual_machines v ON v.id = j.instance_id AND j.instance_type = 'VirtualMachine'"
    "   WHERE j.id = ANY(CAST(:ids AS bigint[])) AND v.host_id IS NOT NULL ORDER BY 1) hosts"
)

_TAKE_LEASES = _sql(
    "WITH asked AS (SELECT j.id, v.host_id, v.hypervisor, j.started IS NULL AS is_new,"
    "     (j.phase = 'running')::int AS lost,"
    "     row_number() OVER (PARTITION BY v.host_id ORDER BY j.id) AS place,"
    "     row_number() OVER (PARTITION BY v.hypervisor ORDER BY j.id) AS turn,"
    "     row_number() OVER (PARTITION BY j.lost_leases < :suspect ORDER BY j.id) AS number"
    "   FROM async_jobs j LEFT JOIN virtual_machines v"
    "     ON v.id = j.instance_id AND j.instance_type = 'VirtualMachine'"
    "   WHERE j.id = ANY(CAST(:ids AS bigint[])) AND $due AND $first AND j.kind = ANY(:kinds)),$busy"
    " UPDATE async_jobs j SET phase = 'running', lease_owner = :worker, lease_fence = lease_fence + 1,"
    "   lease_until = now() + make_interval(secs => :seconds), attempts = attempts + 1,"
    "   lost_leases = lost_leases + asked.lost, started = coalesce(started, now()), retry_at = NULL,"
    "   host_id = asked.host_id"
    " FROM asked LEFT JOIN busy_hosts ON busy_hosts.host_id = asked.host_id"
    "   LEFT JOIN busy_hypervisors ON busy_hypervisors.hypervisor = asked.hypervisor"
    " WHERE j.id = asked.id AND $due AND $has_capacity"
    "   AND (j.lost_leases < :suspect OR asked.number <= :crash_candidates)"
    " RETURNING j.id, j.uuid, j.kind, j.lease_fence, j.attempts, j.user_id, j.instance_type, j.instance_id,"
    " j.deployment_id, j.operation_id, j.params, j.progress, j.parent_id, j.request_id, j.traceparent,"
    " j.lost_leases, j.lost_leases >= :suspect AS runs_alone, asked.is_new,"
    " coalesce(j.progress, '{}') ? '$cancelled' AS cancelled"
)


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A worker that acquires leases: its name, the duration of its leases, and the job kinds that it can run."""

    worker: str
    lease_seconds: float
    kinds: Collection[str]


def take_leases(
    connection: Connection,
    job_ids: Sequence[int],
    lease_holder: LeaseHolder,
    limits: DriverLimits,
    *,
    crash_candidates: int = 1,
) -> list[LeasedJob]:
    """Lease the jobs out of ``job_ids`` that may run now, and return them.

    A job may run if all of these conditions are true: it is unfinished; it is queued, due again, or leased by a
    worker whose lease expired; it is the first unfinished job of its VM; ``lease_holder`` can run its kind; and it
    is within the limits. At most ``crash_candidates`` jobs are leased whose workers ended abruptly too often.
    """
    ids = int_array(sorted(job_ids))
    if limits.per_host or limits.per_hypervisor:
        lock = {"space": Lock.DRIVER_TURNS.value, "ids": ids, "per_hypervisor": limits.per_hypervisor}
        connection.execute(_LOCK_HOSTS, lock)
    rows = connection.execute(
        _TAKE_LEASES,
        {
            "ids": ids,
            "worker": lease_holder.worker,
            "seconds": lease_holder.lease_seconds,
            "kinds": list(lease_holder.kinds),
            "suspect": limits.crash_limit,
            "crash_candidates": crash_candidates,
            **limits.parameters(),
        },
    )
    return [_leased(row) for row in rows.all()]


def _leased(row: Any) -> LeasedJob:
    return LeasedJob(
        id=row.id,
        uuid=row.uuid,
        kind=row.kind,
        fence=row.lease_fence,
        attempts=row.attempts,
        user_id=row.user_id,
        instance_type=row.instance_type,
        instance_id=row.instance_id,
        deployment_id=row.deployment_id,
        params=row.params,
        progress=row.progress or {},
        cancelled=row.cancelled,
        parent_id=row.parent_id,
        lost=row.lost_leases,
        runs_alone=row.runs_alone,
        is_new=row.is_new,
        request_id=row.request_id,
        traceparent=row.traceparent,
        operation_id=row.operation_id,
    )


_HOLD_BACK = _sql(
    "UPDATE async_jobs j SET phase = 'waiting',"
    "   host_id = CASE WHEN asked.for_host THEN asked.host_id END,"
    "   retry_at = CASE WHEN asked.for_host THEN NULL ELSE now() + make_interval(secs => :seconds) END"
    " FROM (SELECT j.id, v.host_id, (v.host_id IS NOT NULL AND j.lost_leases < :suspect AND $first) AS for_host"
    "   FROM async_jobs j LEFT JOIN virtual_machines v"
    "     ON v.id = j.instance_id AND j.instance_type = 'VirtualMachine'"
    "   WHERE j.id = ANY(CAST(:ids AS bigint[])) AND j.kind = ANY(:kinds)) AS asked"
    " WHERE j.id = asked.id AND j.status + 0 = 0 AND j.phase = 'queued'"
)

_LEAVE = _sql(
    "WITH again AS (SELECT id, kind, deployment_id FROM async_jobs WHERE id = ANY(CAST(:ids AS bigint[]))"
    "   AND status + 0 = 0 AND phase = 'queued' AND kind <> ALL(:kinds))"
    "$to_outbox"
)


def hold_back(
    connection: Connection,
    job_ids: Sequence[int],
    lease_holder: LeaseHolder,
    limits: DriverLimits,
    job_queues: JobQueues,
) -> None:
    """Make queued jobs that got no lease wait.

    A job behind an earlier job of its VM waits until ``wake_blocked`` queues it. A job beyond the limit of its host
    waits until ``wake_throttled`` queues it. A job whose workers ended abruptly waits RETRY_S seconds for other
    such jobs. A job of a kind that this worker cannot run is sent again after LEFT_FOR_S seconds.
    """
    kinds = {"ids": int_array(sorted(job_ids)), "kinds": list(lease_holder.kinds)}
    connection.execute(_HOLD_BACK, {**kinds, "seconds": RETRY_S, "suspect": limits.crash_limit})
    connection.execute(_LEAVE, {**kinds, **job_queues.parameters(), "after": LEFT_FOR_S})


_GIVE_BACK = _sql(
    "WITH again AS (UPDATE async_jobs j SET phase = 'queued', attempts = attempts - 1, lease_until = NULL,"
    "   lease_owner = NULL, host_id = NULL, retry_at = now()"
    "   FROM unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[])) AS held(id, fence)"
    "   WHERE j.id = held.id AND j.lease_fence = held.fence AND j.status + 0 = 0"
    "   RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox RETURNING job_id, queue, kind"
)


def give_back_leases(connection: Connection, fences: Mapping[int, int], job_queues: JobQueues) -> list[Unsent]:
    """End the leases of jobs that were not started, and queue the jobs as if they had not been leased.

    ``fences`` has the fence of each lease by job id. Returns the messages in the outbox that must be sent. Jobs
    whose lease was lost are omitted.
    """
    held = sorted(fences.items())
    ids = {"ids": int_array([job for job, _ in held]), "fences": int_array([fence for _, fence in held])}
    rows = connection.execute(_GIVE_BACK, {**ids, **job_queues.parameters(), "after": 0})
    return [Unsent(row.job_id, row.kind, row.queue) for row in rows]


_WAKE_THROTTLED = _sql(
    "WITH freed AS MATERIALIZED (SELECT host_id, count(*) AS jobs FROM async_jobs"
    "   WHERE id = ANY(CAST(:ids AS bigint[])) AND host_id IS NOT NULL AND EXISTS (SELECT FROM async_jobs"
    "     WHERE status = 0 AND phase = 'waiting' AND host_id IS NOT NULL) GROUP BY host_id),"
    " due AS (SELECT held.id FROM freed CROSS JOIN LATERAL (SELECT w.id FROM async_jobs w WHERE w.status = 0"
    "     AND w.phase = 'waiting' AND w.host_id = freed.host_id ORDER BY w.id LIMIT freed.jobs"
    "     FOR UPDATE SKIP LOCKED) AS held),"
    " again AS (UPDATE async_jobs j SET phase = 'queued', retry_at = now(), host_id = NULL FROM due"
    "   WHERE j.id = due.id RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox RETURNING job_id, queue, kind"
)


def wake_throttled(connection: Connection, ended_ids: Sequence[int], job_queues: JobQueues) -> list[Unsent]:
    """Queue, for each ended job, one job that waits for the same host, through the outbox.

    The sweeper wakes waiting jobs as well (``job_sweeping.requeue_throttled``), for cases that this function
    misses.
    """
    ids = {"ids": int_array(sorted(ended_ids))}
    rows = connection.execute(_WAKE_THROTTLED, {**ids, **job_queues.parameters(), "after": 0})
    return [Unsent(row.job_id, row.kind, row.queue) for row in rows]


_CHANGE_HOST = text(
    "UPDATE async_jobs j SET host_id = v.host_id FROM virtual_machines v"
    " WHERE j.id = :id AND j.lease_fence = :fence AND v.id = j.instance_id AND (:per_host = 0 OR :per_host >"
    "   (SELECT count(*) FROM async_jobs b WHERE b.status = 0 AND b.phase = 'running' AND b.host_id = v.host_id"
    "     AND b.id <> j.id)) RETURNING j.id"
)


def change_host(connection: Connection, job: LeasedJob, host_id: int, limits: DriverLimits) -> bool:
    """Change the host of a leased job to the host that its VM has now claimed.

    Returns False if the job must wait because the limit of that host is reached. The host's lock is also acquired
    by transactions that acquire leases. These transactions wait for no row that a running job has locked, because
    they have locked the rows of the hosts before.
    """
    if limits.per_host:
        take_lock(connection, Lock.DRIVER_TURNS, 0 if limits.per_hypervisor else host_id)
    given = {"id": job.id, "fence": job.fence, "per_host": limits.per_host}
    return connection.execute(_CHANGE_HOST, given).first() is not None
