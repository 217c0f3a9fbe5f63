"""The jobs of one deployment or of one bulk operation as a whole."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from sqlalchemy import Connection, TextClause, text

from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.jobs.jobs import CANCELLED

JOB_COUNTS = ("queued", "running", "succeeded", "failed")


class JobGroup(Enum):
    """A kind of call that makes many jobs: the column of jobs that names the call, and the table of the calls."""

    DEPLOYMENT = "deployment_id", "deployments"
    OPERATION = "operation_id", "bulk_operations"

    def sql(self, statement: str) -> TextClause:
        """Return a statement with this kind's column for ``$group`` and its table for ``$calls``."""
        column, calls = self.value
        return text(statement.replace("$group", column).replace("$calls", calls))


_CANCEL = (
    "UPDATE async_jobs j"
    " SET progress = coalesce(j.progress, '{}') || jsonb_build_object(CAST(:cancelled AS text), true)"
    " FROM (SELECT id FROM async_jobs WHERE $group = ANY(CAST(:calls AS bigint[])) AND status = 0"
    "   AND attempts = 0 FOR UPDATE SKIP LOCKED) AS stopped WHERE j.id = stopped.id"
)


def cancel_jobs_never_leased(connection: Connection, group: JobGroup, call_ids: Sequence[int]) -> None:
    """Cancel the jobs of these calls that no worker has leased: the next lease ends them without a driver call.

    A job that another transaction changes at this moment is not cancelled, because a worker may be about to lease
    it. It runs like a job that was leased before.
    """
    connection.execute(group.sql(_CANCEL), {"cancelled": CANCELLED, "calls": int_array(call_ids)})


_COUNT = (
    "SELECT j.$group AS call_id, count(*) FILTER (WHERE j.status = 0 AND waits) AS queued,"
    " count(*) FILTER (WHERE j.status = 0 AND NOT waits) AS running,"
    " count(*) FILTER (WHERE j.status = 1) AS succeeded, count(*) FILTER (WHERE j.status = 2) AS failed,"
    " max(j.completed) AS completed"
    " FROM async_jobs j JOIN $calls c ON c.id = j.$group CROSS JOIN LATERAL (SELECT CASE"
    "   WHEN c.cancel_requested IS NULL THEN j.attempts = 0"
    "   ELSE j.status = 0 AND coalesce(j.progress, '{}') ? :cancelled END AS waits) AS state"
    " WHERE j.$group = ANY(CAST(:calls AS bigint[])) GROUP BY j.$group"
)


def count_jobs(connection: Connection, group: JobGroup, call_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Count the queued, running, succeeded and failed jobs of each call, with the time of the latest end.

    A job is queued until a worker leases it for the first time. In a cancelled call only the cancelled jobs are
    queued: all of them fail, and all running jobs continue. A job that waits for another attempt is running.
    """
    rows = connection.execute(group.sql(_COUNT), {"calls": int_array(call_ids), "cancelled": CANCELLED}).mappings()
    return {row["call_id"]: {key: row[key] for key in (*JOB_COUNTS, "completed")} for row in rows}


_SLOWEST = (
    "SELECT j.uuid AS jobid, v.uuid AS virtualmachineid, v.name, h.name AS hostname,"
    " CAST(extract(epoch FROM j.completed - j.created) AS double precision) AS seconds"
    " FROM (SELECT * FROM async_jobs WHERE $group = :call AND status <> 0"
    "       ORDER BY completed - created DESC, id LIMIT :most) j"
    " JOIN virtual_machines v ON v.id = j.instance_id"
    " LEFT JOIN hosts h ON h.id = coalesce(v.host_id, v.last_host_id)"
    " ORDER BY seconds DESC, j.id"
)


def slowest_jobs(connection: Connection, group: JobGroup, call_id: int, most: int) -> list[dict[str, Any]]:
    """Return the ``most`` finished jobs of a call that took longest, with the seconds from the call to the end."""
    rows = connection.execute(group.sql(_SLOWEST), {"call": call_id, "most": most}).mappings()
    return [dict(row) for row in rows]


_FAILURES = (
    "SELECT c.id AS call_id, f.* FROM unnest(CAST(:calls AS bigint[])) AS c(id), LATERAL ("
    "  SELECT uuid AS jobid, instance_uuid AS virtualmachineid, result FROM async_jobs"
    "  WHERE $group = c.id AND status = 2 ORDER BY id LIMIT :most) f"
)


def failures_of(
    connection: Connection, group: JobGroup, call_ids: Sequence[int], most: int
) -> dict[int, list[dict[str, Any]]]:
    """Return the first ``most`` failed jobs of each call, with the JSON texts of their results."""
    rows = connection.execute(group.sql(_FAILURES), {"calls": int_array(call_ids), "most": most}).mappings()
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["call_id"], []).append(dict(row))
    return found
