"""The pace of bulk operations: how many of their jobs run at the same time, and how many may fail.

The first ``max_parallel`` jobs of an operation are sent when they are inserted, and the others are delayed. Each
end of a job releases one delayed job in the same transaction, so that at most ``max_parallel`` jobs are unfinished
and sent. A job that the sweeper ended releases no other job; for these cases the sweeper calls
``release_what_is_due``.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, TextClause, text

from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.jobs.job_groups import JobGroup, cancel_jobs_never_leased
from bulkdeploy.store.jobs.outbox import TO_OUTBOX, JobQueues, Unsent

ALL = 2**31 - 1


def _release(allowed: str) -> TextClause:
    """Return a statement that releases delayed jobs, oldest first.

    ``allowed`` is a subquery that selects ``id``, the operation, and ``jobs``, the number of jobs to release.
    """
    return text(
        f"WITH allowed AS MATERIALIZED ({allowed}),"  # noqa: S608 - ours
        " due AS (SELECT held.id FROM allowed CROSS JOIN LATERAL (SELECT j.id FROM async_jobs j"
        "     WHERE j.operation_id = allowed.id AND j.status = 0 AND j.phase = 'held' ORDER BY j.id"
        "     LIMIT allowed.jobs FOR UPDATE SKIP LOCKED) AS held),"
        " again AS (UPDATE async_jobs j SET phase = 'queued', retry_at = now() FROM due WHERE j.id = due.id"
        f"   RETURNING j.id, j.kind, j.deployment_id){TO_OUTBOX} RETURNING job_id, queue, kind"
    )


_RELEASE = _release("SELECT unnest(CAST(:ids AS bigint[])) AS id, unnest(CAST(:jobs AS bigint[])) AS jobs")

_RELEASE_DUE = _release(
    "SELECT o.id, CASE WHEN o.cancel_requested IS NOT NULL THEN :most"
    "   ELSE least(:most, greatest(0, o.max_parallel - (SELECT count(*) FROM async_jobs j"
    "     WHERE j.operation_id = o.id AND j.status = 0 AND j.phase <> 'held'))) END AS jobs"
    " FROM bulk_operations o"
    " WHERE o.id IN (SELECT operation_id FROM async_jobs WHERE status = 0 AND phase = 'held')"
    " ORDER BY o.id FOR UPDATE OF o SKIP LOCKED"
)

_LOCK = text(
    "SELECT FROM bulk_operations WHERE id = ANY(CAST(:ids AS bigint[])) AND max_failures IS NOT NULL"
    " ORDER BY id FOR UPDATE"
)
"""Of two transactions that write failures at the same moment the second then counts both."""

_FAILED_TOO_OFTEN = text(
    "UPDATE bulk_operations o SET cancel_requested = now() WHERE o.id = ANY(CAST(:ids AS bigint[]))"
    " AND o.cancel_requested IS NULL AND o.max_failures < (SELECT count(*) FROM async_jobs j"
    "   WHERE j.operation_id = o.id AND j.status = 2) RETURNING o.id"
)


def release_next(connection: Connection, ended: Mapping[int, int], queue: str) -> list[Unsent]:
    """Release as many delayed jobs of each operation as jobs of the operation have ended.

    Return the messages to send.

    ``ended`` has the number of ended jobs by operation id.
    """
    return _released(connection, _RELEASE, queue, {"ids": list(ended), "jobs": list(ended.values())})


def release_all(connection: Connection, operation_ids: Collection[int], queue: str) -> list[Unsent]:
    """Release all delayed jobs of these operations. Return the messages to send.

    The jobs of cancelled operations end without a driver call.
    """
    return release_next(connection, dict.fromkeys(operation_ids, ALL), queue)


def release_what_is_due(connection: Connection, queue: str, most: int) -> int:
    """Release the delayed jobs that operations may run now, at most ``most`` of each; return their number."""
    return len(_released(connection, _RELEASE_DUE, queue, {"most": most}))


def cancel_if_too_many_failed(connection: Connection, operation_ids: Collection[int], queue: str) -> list[Unsent]:
    """Cancel the operations out of ``operation_ids`` with too many failed jobs, and release their delayed jobs.

    Returns the messages to send.
    """
    if not operation_ids:
        return []
    connection.execute(_LOCK, {"ids": int_array(operation_ids)})
    cancelled = list(connection.execute(_FAILED_TOO_OFTEN, {"ids": int_array(operation_ids)}).scalars())
    if not cancelled:
        return []
    cancel_jobs_never_leased(connection, JobGroup.OPERATION, cancelled)
    return release_all(connection, cancelled, queue)


def _released(
    connection: Connection, statement: TextClause, queue: str, values: Mapping[str, object]
) -> list[Unsent]:
    queues = JobQueues(interactive=queue, bulk=(), sizes=())  # the jobs belong to no deployment
    rows = connection.execute(statement, {**values, **queues.parameters(), "after": 0})
    return [Unsent(row.job_id, row.kind, row.queue) for row in rows]
