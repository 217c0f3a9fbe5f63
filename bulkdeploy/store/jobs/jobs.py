"""The job engine's statements on jobs: insert, renew leases, pause, complete (one file: one state machine).

Each statement handles many jobs.

Every change names the lease by its fence. It changes nothing if another worker has a newer lease, or if the job has
ended. A job is only leased while no earlier job of the same instance is unfinished. Writers of jobs lock the
instance's row, so that the ids of its jobs grow in commit order and this check misses no job.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import FAILED_RESULT_CODE, JobStatus
from bulkdeploy.store.database.arrays import RECORD_SEPARATOR, int_array, nullable_array
from bulkdeploy.store.jobs.action_events import SCHEDULED, ActionEvent, write_events
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.telemetry.request_id import current_request
from bulkdeploy.telemetry.tracing import current_traceparent

CANCELLED = "cancelled"
"""The key of a job's progress that says: its deployment was cancelled before any worker leased the job."""


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A job on which this process may work until its lease ends. ``fence`` identifies the lease.

    ``kind`` may be unknown to this release. ``instance_id`` is the internal id of the job's instance of type
    ``instance_type``. ``parent_id`` is the job that created this job, and ``operation_id`` its bulk operation.
    ``deployment_id`` is the deployment of the VM that the job deploys. ``progress`` has the notes of earlier tries.
    ``cancelled`` means that the deployment was cancelled before the job began. ``lost`` is the number of leases
    that expired under a worker; with ``runs_alone``, the next such lease is the last. ``is_new`` means that this is
    the first lease. ``request_id`` and ``traceparent`` are the call and the span that created the job.
    """

    id: int
    uuid: UUID
    kind: str
    fence: int
    attempts: int
    user_id: int
    instance_type: str
    instance_id: int
    deployment_id: int | None
    params: Mapping[str, Any]
    progress: Mapping[str, Any]
    cancelled: bool
    parent_id: int | None = None
    lost: int = 0
    runs_alone: bool = False
    is_new: bool = True
    request_id: str | None = None
    traceparent: str | None = None
    operation_id: int | None = None

    @property
    def lease(self) -> tuple[int, int]:
        """The job's id and its fence, which together identify the lease."""
        return self.id, self.fence


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a leased job. ``result`` is the text of a JSON object."""

    job_id: int
    fence: int
    status: JobStatus
    result: str


@dataclass(frozen=True, slots=True)
class JobPause:
    """The pause of a leased job, which is due again after ``after_s`` seconds.

    ``progress`` is added to its notes.
    """

    job_id: int
    fence: int
    after_s: float
    progress: Mapping[str, Any]


FIRST = (
    "NOT EXISTS (SELECT FROM async_jobs e WHERE e.instance_id = j.instance_id"
    " AND e.instance_type = j.instance_type AND e.id < j.id AND e.status + 0 = 0)"
)
"""Job ``j`` is the first of its instance's unfinished jobs.

``+ 0``, here and wherever jobs are named by id, keeps the planner from the index of unfinished jobs. With
statistics of a moment when there were none it takes that index for empty, and what was planned then reads all
unfinished jobs for each VM of a later drain.
"""


_WAKE = text(
    "WITH woken AS (UPDATE async_jobs j SET phase = 'queued', retry_at = now(), host_id = NULL"
    "   WHERE j.instance_id = ANY(CAST(:instances AS bigint[]))"
    "   AND j.instance_type = :type AND j.status + 0 = 0 AND j.phase = 'waiting' AND $first"
    "   RETURNING id, kind)"
    " INSERT INTO outbox (job_id, queue, kind) SELECT id, :queue, kind FROM woken"
    " ON CONFLICT (job_id) DO NOTHING RETURNING job_id, kind".replace("$first", FIRST)
)


def wake_blocked(
    connection: Connection, instance_type: str, instance_ids: Sequence[int], queue: str
) -> list[tuple[int, str]]:
    """Queue the next job of each instance whose job has ended, through the outbox.

    Return the jobs' ids and kinds.
    """
    wanted = {"type": instance_type, "instances": int_array(sorted(instance_ids)), "queue": queue}
    rows = connection.execute(_WAKE, wanted)
    return [(row.job_id, row.kind) for row in rows]


_RENEW = text(
    "UPDATE async_jobs j SET lease_until = now() + make_interval(secs => :seconds)"
    " FROM unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[])) AS held(id, fence)"
    " WHERE j.id = held.id AND j.lease_fence = held.fence AND j.status + 0 = 0 AND j.phase = 'running'"
    " RETURNING j.id"
)


def renew_leases(connection: Connection, fences: Mapping[int, int], lease_seconds: float) -> set[int]:
    """Renew leases for ``lease_seconds``, and return the ids of the jobs whose lease the caller still has.

    ``fences`` has the fence of each lease by job id.
    """
    held = sorted(fences.items())
    rows = connection.execute(
        _RENEW,
        {
            "ids": int_array([job for job, _ in held]),
            "fences": int_array([fence for _, fence in held]),
            "seconds": lease_seconds,
        },
    )
    return set(rows.scalars())


_HELD = text(
    "SELECT j.id, j.lease_fence FROM async_jobs j"
    " JOIN unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[])) AS held(id, fence)"
    "   ON j.id = held.id AND j.lease_fence = held.fence WHERE j.status + 0 = 0"
)


def held_leases(connection: Connection, leases: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the leases out of ``leases`` that no other worker has acquired and whose jobs are unfinished.

    A lease is a pair of job id and fence (``LeasedJob.lease``).
    """
    held = sorted(leases)
    rows = connection.execute(
        _HELD, {"ids": int_array([job for job, _ in held]), "fences": int_array([fence for _, fence in held])}
    )
    return {(row.id, row.lease_fence) for row in rows}


_FINISH = text(
    "UPDATE async_jobs j SET status = ended.status, phase = 'done', result = ended.result,"
    " result_code = CASE ended.status WHEN 1 THEN 0 ELSE :failed END,"
    " completed = now(), lease_until = NULL, retry_at = NULL"
    " FROM unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[]), CAST(:statuses AS smallint[]),"
    "   string_to_array(:results, chr(30))) AS ended(id, fence, status, result)"
    " WHERE j.id = ended.id AND j.lease_fence = ended.fence AND j.status + 0 = 0 RETURNING j.id"
)


def finish_jobs(connection: Connection, ends: Sequence[JobEnd]) -> set[int]:
    """Finish jobs, and return the ids of the finished jobs. Jobs whose lease was lost are not changed."""
    ends = sorted(ends, key=lambda end: end.job_id)
    rows = connection.execute(
        _FINISH,
        {
            "ids": int_array([end.job_id for end in ends]),
            "fences": int_array([end.fence for end in ends]),
            "statuses": int_array([end.status.value for end in ends]),
            "results": RECORD_SEPARATOR.join(end.result for end in ends),
            "failed": FAILED_RESULT_CODE,
        },
    )
    return set(rows.scalars())


_PAUSE = text(
    "UPDATE async_jobs j SET phase = 'waiting', retry_at = now() + make_interval(secs => paused.seconds),"
    " progress = coalesce(j.progress, '{}') || paused.progress, lease_until = NULL, host_id = NULL"
    " FROM (SELECT unnest(CAST(:ids AS bigint[])) AS id, unnest(CAST(:fences AS bigint[])) AS fence,"
    "   unnest(CAST(:seconds AS double precision[])) AS seconds, unnest(:progress) AS progress) AS paused"
    " WHERE j.id = paused.id AND j.lease_fence = paused.fence AND j.status + 0 = 0 RETURNING j.id"
).bindparams(bindparam("progress", type_=ARRAY(JSONB)))


def pause_jobs(connection: Connection, pauses: Sequence[JobPause]) -> set[int]:
    """End leases and make the jobs due later. Return the ids of the jobs whose lease the caller still had."""
    pauses = sorted(pauses, key=lambda pause: pause.job_id)
    rows = connection.execute(
        _PAUSE,
        {
            "ids": int_array([pause.job_id for pause in pauses]),
            "fences": int_array([pause.fence for pause in pauses]),
            "seconds": [pause.after_s for pause in pauses],
            "progress": [dict(pause.progress) for pause in pauses],
        },
    )
    return set(rows.scalars())


_WRITE_PROGRESS = text(
    "UPDATE async_jobs SET progress = :progress, lease_until = now() + make_interval(secs => :seconds)"
    " WHERE id = :id AND lease_fence = :fence AND status = 0 AND phase = 'running' RETURNING id"
).bindparams(bindparam("progress", type_=JSONB))


def write_progress(
    connection: Connection, job: LeasedJob, progress: Mapping[str, Any], lease_seconds: float
) -> bool:
    """Write the notes for later tries of a job, and renew its lease. Return False if the lease was lost."""
    row = connection.execute(
        _WRITE_PROGRESS,
        {"id": job.id, "fence": job.fence, "progress": dict(progress), "seconds": lease_seconds},
    ).first()
    return row is not None


@dataclass(frozen=True, slots=True)
class NewJob:
    """A new job for an instance whose row is locked. ``description`` is the text of its Scheduled event.

    ``uuid`` is the uuid of a job that has claimed something already. If it is None, the database chooses one.
    """

    kind: str
    cmd: str
    account_id: int
    user_id: int
    instance: Instance
    params: Mapping[str, Any]
    event_type: EventType
    description: str
    parent_id: int | None = None
    uuid: UUID | None = None


_INSERT = text(
    "WITH made AS (INSERT INTO async_jobs (uuid, kind, cmd, account_id, user_id, instance_type, instance_id,"
    "     instance_uuid, params, parent_id, operation_id, request_id, traceparent, phase)"
    "   SELECT coalesce(uuid, gen_random_uuid()), kind, cmd, account_id, user_id, instance_type, instance_id,"
    "     instance_uuid, CAST(params AS jsonb), parent_id, CAST(:operation AS bigint), :request, :traceparent,"
    "     CASE WHEN place <= :most THEN 'queued' ELSE 'held' END"
    "   FROM unnest(string_to_array(:kinds, chr(30)), string_to_array(:cmds, chr(30)),"
    "     CAST(:accounts AS bigint[]), CAST(:users AS bigint[]), string_to_array(:types, chr(30)),"
    "     CAST(:instances AS bigint[]), CAST(:uuids AS uuid[]), CAST(:parents AS bigint[]),"
    "     CAST(:own_uuids AS uuid[]), string_to_array(:params, chr(30))) WITH ORDINALITY"
    "     AS new(kind, cmd, account_id, user_id, instance_type, instance_id, instance_uuid, parent_id, uuid,"
    "       params, place)"
    "   ORDER BY place RETURNING id, uuid, kind, phase), sent AS (INSERT INTO outbox (job_id, queue, kind)"
    "   SELECT id, :queue, kind FROM made WHERE phase = 'queued') SELECT id, uuid FROM made ORDER BY id"
)


def insert_jobs(
    connection: Connection,
    jobs: Sequence[NewJob],
    queue: str,
    operation_id: int | None = None,
    max_parallel: int | None = None,
) -> list[tuple[int, UUID]]:
    """Insert jobs, at most one per instance, with their outbox rows and Scheduled events.

    Returns their ids and uuids. ``operation_id`` is their bulk operation, of which the first ``max_parallel`` jobs
    are sent and the others are delayed (``operation_pace``). The jobs belong to no deployment: a deployment
    contains only the jobs that deploy its VMs.
    """
    rows = connection.execute(
        _INSERT,
        {
            "kinds": RECORD_SEPARATOR.join(job.kind for job in jobs),
            "cmds": RECORD_SEPARATOR.join(job.cmd for job in jobs),
            "accounts": int_array(job.account_id for job in jobs),
            "users": int_array(job.user_id for job in jobs),
            "types": RECORD_SEPARATOR.join(job.instance.type for job in jobs),
            "instances": int_array(job.instance.id for job in jobs),
            "uuids": nullable_array(job.instance.uuid for job in jobs),
            "own_uuids": nullable_array(job.uuid for job in jobs),
            "parents": nullable_array(job.parent_id for job in jobs),
            "params": RECORD_SEPARATOR.join(orjson.dumps(dict(job.params)).decode() for job in jobs),
            "operation": operation_id,
            "request": current_request(),
            "traceparent": current_traceparent(),
            "queue": queue,
            "most": len(jobs) if max_parallel is None else max_parallel,
        },
    )
    made = [(job_id, uuid) for job_id, uuid in rows.all()]
    write_events(
        connection,
        [
            ActionEvent(job_id, job.event_type, SCHEDULED, job.description)
            for job, (job_id, _) in zip(jobs, made, strict=True)
        ],
    )
    return made
