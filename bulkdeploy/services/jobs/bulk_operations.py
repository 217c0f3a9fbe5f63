"""Bulk operations after the response to their call: list as a whole, and cancel."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.queue.job_queue import PACED, JobMessage
from bulkdeploy.services.jobs.bulk_jobs import failure_row, operation_state
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.jobs.bulk_operations import list_operations, operation_owner, request_cancel
from bulkdeploy.store.jobs.job_groups import JOB_COUNTS, JobGroup, count_jobs, failures_of, slowest_jobs
from bulkdeploy.store.jobs.operation_pace import release_all
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Page, Paging
from bulkdeploy.store.rows.visibility import Visibility

MOST_FAILURES = 100
MOST_SLOW = 5
INTERNAL = ("_id", "_group", "_now", "cancel_requested")
"""Columns of stored operations that answers do not show."""


def list_bulk_operations(connection: Connection, visible: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return a page of operations and deployments, with their jobs by state, their rate and their failures.

    If one operation is requested by id, the row also has its slowest jobs.
    """
    page = list_operations(connection, visible, arguments, paging)
    jobs: dict[tuple[JobGroup, int], Mapping[str, Any]] = {}
    failures: dict[tuple[JobGroup, int], list[dict[str, Any]]] = {}
    for group in JobGroup:
        ids = [row["_id"] for row in page.rows if row["_group"] is group]
        if ids:
            jobs |= {(group, call_id): count for call_id, count in count_jobs(connection, group, ids).items()}
            failures |= {
                (group, call_id): failed
                for call_id, failed in failures_of(connection, group, ids, MOST_FAILURES).items()
            }
    rows = []
    for row in page.rows:
        key = row["_group"], row["_id"]
        counts = jobs.get(key, dict.fromkeys(JOB_COUNTS, 0))
        rows.append(
            {
                **{name: value for name, value in row.items() if name not in INTERNAL},
                **counts,
                **_pace(row, counts),
                "state": operation_state(row, counts),
                "failures": [failure_row(failure) for failure in failures.get(key, [])],
            }
        )
    if "id" in arguments and len(rows) == 1:
        group, call_id = page.rows[0]["_group"], page.rows[0]["_id"]
        rows[0]["slowest"] = slowest_jobs(connection, group, call_id, MOST_SLOW)
    return Page(rows, page.count)


def cancel_bulk_operation(
    connection: Connection, system: System, caller: Caller, operation: EntityRef
) -> Mapping[str, Any]:
    """Cancel the jobs of an operation or a bulk deployment that no worker has leased, and return its row.

    The row counts the cancelled jobs as ``queued``; each of them fails with the cancellation as its reason. The row
    counts leased jobs as ``running``; these jobs run to their end.

    Raises:
        PermissionDenied: the caller may not act for the operation's account.
        InvalidParameter: all jobs of the operation are finished, or it was cancelled before.
    """
    group = JobGroup.DEPLOYMENT if operation.entity is Entity.DEPLOYMENT else JobGroup.OPERATION
    account_id = operation_owner(connection, group, operation.id)
    require_access(connection, caller, account_id, f"bulk operation {operation.uuid}")
    if not request_cancel(connection, group, operation.id):
        raise InvalidParameter("id", str(operation.uuid), "all its jobs are finished, or it was cancelled before")
    if group is JobGroup.OPERATION:
        released = release_all(connection, [operation.id], PACED)
        send_jobs(connection, system.job_queue, [JobMessage(job.job_id, job.kind, job.queue) for job in released])
    return list_bulk_operations(connection, Visibility(), {"id": operation}, Paging(limit=1)).rows[0]


def _pace(row: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the finished jobs per second, and the estimated seconds until the other jobs end."""
    done = counts["succeeded"] + counts["failed"]
    left = counts["queued"] + counts["running"]
    until = row["_now"] if left else counts.get("completed")
    if not done or until is None:
        return {}
    rate = done / max((until - row["created"]).total_seconds(), 0.001)
    return {"rate": round(rate, 3), "secondsleft": round(left / rate)} if left else {"rate": round(rate, 3)}
