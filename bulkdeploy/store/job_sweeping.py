"""What the sweeper looks for: jobs that were dropped, lost, late or old. Safe for several sweepers at once.

Whatever is to be run again goes through the outbox, in the statement that finds it. For a queued job
``retry_at`` says when it was last sent again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

from bulkdeploy.store.jobs import FIRST

LOST_AFTER_S = 5
"""A queued job this old whose queue is empty was lost: workers take a lease milliseconds after a message."""

OVERTAKEN_AFTER_S = 3600
"""One whose queue is not empty is sent again after this: it may just wait its turn."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Names of queues: for what a person waits for, and for bulk deployments by their id."""

    interactive: str
    bulk: Sequence[str]


_QUEUE = (
    "CASE WHEN d.bulk AND again.kind = 'deploy_virtual_machine'"
    " THEN (CAST(:lanes AS text[]))[1 + again.deployment_id % cardinality(CAST(:lanes AS text[]))]"
    " ELSE :interactive END"
)
_TO_OUTBOX = (
    " INSERT INTO outbox (job_id, queue, kind, created)"
    " SELECT again.id, $queue, again.kind, now() - interval '1 hour'"
    " FROM again LEFT JOIN deployments d ON d.id = again.deployment_id"
    " ON CONFLICT (job_id) DO UPDATE SET created = excluded.created"
)


def _sql(statement: str) -> TextClause:
    return text(statement.replace("$to_outbox", _TO_OUTBOX).replace("$queue", _QUEUE).replace("$first", FIRST))


def _names(lanes: Lanes) -> dict[str, Any]:
    return {"interactive": lanes.interactive, "lanes": list(lanes.bulk)}


_REQUEUE = _sql(
    "WITH due AS (SELECT id FROM async_jobs j WHERE status = 0 AND ((phase = 'running' AND lease_until < now())"
    "   OR (phase = 'waiting' AND retry_at <= now() AND $first))"
    "   ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED),"
    " again AS (UPDATE async_jobs j SET phase = 'queued', lease_until = NULL,"
    "   retry_at = now() FROM due WHERE j.id = due.id"
    "   RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox"
)


def requeue_dropped(connection: Connection, lanes: Lanes, most: int) -> int:
    """Queue jobs whose lease ran out, and jobs that waited long enough; how many."""
    return connection.execute(_REQUEUE, {**_names(lanes), "most": most}).rowcount


_LOST = _sql(
    "WITH due AS (SELECT again.id FROM async_jobs again LEFT JOIN deployments d ON d.id = again.deployment_id"
    "   WHERE again.status = 0 AND again.phase = 'queued'"
    "   AND NOT EXISTS (SELECT FROM outbox o WHERE o.job_id = again.id)"
    "   AND coalesce(again.retry_at, again.created) < now() - make_interval(secs =>"
    "     CASE WHEN $queue = ANY(CAST(:empty AS text[])) THEN :lost ELSE :overtaken END)"
    "   ORDER BY again.id LIMIT :most FOR UPDATE OF again SKIP LOCKED),"
    " again AS (UPDATE async_jobs j SET retry_at = now() FROM due WHERE j.id = due.id"
    "   RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox"
)


def requeue_lost(connection: Connection, lanes: Lanes, empty_queues: Collection[str], most: int) -> int:
    """Send queued jobs again whose message got lost; how many.

    A message that is neither in the outbox nor in its queue was lost, or is about to become a lease. Behind
    a queue that is not empty nobody can tell; there it is sent again after OVERTAKEN_AFTER_S.
    """
    return connection.execute(
        _LOST,
        {
            **_names(lanes),
            "empty": list(empty_queues),
            "most": most,
            "lost": LOST_AFTER_S,
            "overtaken": OVERTAKEN_AFTER_S,
        },
    ).rowcount


_OVERDUE = _sql(
    "WITH due AS (SELECT id FROM async_jobs j WHERE status = 0 AND attempts > 0"
    "   AND started < now() - make_interval(mins => :minutes)"
    "   AND NOT (phase = 'running' AND lease_until >= now()) AND (progress -> 'overdue') IS NULL"
    "   ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED),"
    " again AS (UPDATE async_jobs j SET phase = 'queued', lease_until = NULL,"
    "   retry_at = now(), progress = coalesce(progress, '{}') || '{\"overdue\": true}'"
    "   FROM due WHERE j.id = due.id RETURNING j.id, j.kind, j.deployment_id)"
    "$to_outbox"
)


def requeue_overdue(connection: Connection, lanes: Lanes, *, minutes: int, most: int) -> int:
    """Have jobs ended that began this long ago and that nobody works on: a worker cleans up and fails them."""
    return connection.execute(_OVERDUE, {**_names(lanes), "minutes": minutes, "most": most}).rowcount


_STUCK = text(
    "SELECT id, uuid, kind, lease_fence, user_id, instance_id, deployment_id FROM async_jobs"
    " WHERE status = 0 AND attempts = 0 AND created < now() - make_interval(mins => :minutes)"
    " AND NOT EXISTS (SELECT FROM async_jobs r WHERE r.status = 0 AND r.phase = 'running'"
    "   AND r.lease_until >= now())"
    " AND NOT EXISTS (SELECT FROM async_jobs f WHERE f.status <> 0"
    "   AND f.completed >= now() - make_interval(mins => :minutes))"
    " ORDER BY id LIMIT :most"
)


def read_stuck(connection: Connection, *, minutes: int, most: int) -> list[Row[Any]]:
    """Jobs this old that never began, while no job at all has moved for as long: no worker is there.

    A job that waits in a line that moves is not stuck, however long the line is.
    """
    return list(connection.execute(_STUCK, {"minutes": minutes, "most": most}))


_EXPIRE = text(
    "DELETE FROM async_jobs WHERE id IN (SELECT id FROM async_jobs WHERE status <> 0"
    "   AND completed < now() - make_interval(mins => :minutes) ORDER BY completed LIMIT :most"
    "   FOR UPDATE SKIP LOCKED)"
)


def delete_expired(connection: Connection, *, minutes: int, most: int) -> int:
    """Delete jobs that were finished this long ago; how many."""
    return connection.execute(_EXPIRE, {"minutes": minutes, "most": most}).rowcount


_TO_EXPUNGE = text(
    "SELECT v.id, v.account_id, v.user_id FROM virtual_machines v WHERE v.removed IS NULL"
    " AND ((v.state = 'Destroyed' AND v.updated < now() - make_interval(secs => :delay))"
    "   OR (v.state = 'Expunging' AND v.updated < now() - make_interval(secs => :again))"
    "   OR v.account_id IN (SELECT id FROM accounts WHERE removed IS NOT NULL))"
    " AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.status + 0 = 0"
    "   AND j.instance_type = 'VirtualMachine')"
    " AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.status = 2"
    "   AND j.instance_type = 'VirtualMachine' AND j.completed >= now() - make_interval(secs => :again))"
    " ORDER BY v.id LIMIT :most FOR UPDATE OF v SKIP LOCKED"
)


def lock_vms_to_expunge(connection: Connection, *, delay_s: int, again_s: int, most: int) -> list[Row[Any]]:
    """VMs destroyed this long ago, or whose owner was deleted, or whose removal did not succeed yet; locked.

    None of them has an unfinished job, or one that failed less than ``again_s`` ago.
    """
    return list(connection.execute(_TO_EXPUNGE, {"delay": delay_s, "again": again_s, "most": most}))
