"""Bulk deployments after their call was answered: seen as a whole, and cancelled."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.placement.model import HostAnswer
from bulkdeploy.scheduling.reasons import excluded_rows, reason_fields
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.deployments import deployments as store
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.listing import Page, Paging
from bulkdeploy.store.visibility import Visibility

MOST_FAILURES = 100
MOST_SLOW = 5


def list_bulk_deployments(
    connection: Connection, visible: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """One row per bulk deployment: its jobs by state, its spread, its failures with reasons.

    Of one that is asked for by id also how full its clusters are by now, and its slowest jobs.
    """
    page = store.list_deployments(connection, visible, arguments, paging)
    ids = [row["_id"] for row in page.rows]
    jobs = store.count_jobs(connection, ids)
    failures = store.failures_of(connection, ids, MOST_FAILURES)
    spreads = spread_rows(connection, [row["plan"] for row in page.rows])
    if "id" in arguments and len(ids) == 1:
        spreads = [spreads[0] | _as_it_is_now(connection, ids[0], page.rows[0]["plan"], spreads[0]["clusters"])]
    rows = [
        {
            **{key: row[key] for key in row if key not in ("_id", "plan", "cancel_requested")},
            **jobs.get(row["_id"], dict.fromkeys(store.JOB_COUNTS, 0)),
            **spread,
            "state": _state(row, jobs.get(row["_id"], {})),
            "failures": [_failure(failure) for failure in failures.get(row["_id"], [])],
        }
        for row, spread in zip(page.rows, spreads, strict=True)
    ]
    return Page(rows, page.count)


def cancel_bulk_deployment(connection: Connection, caller: Caller, deployment: EntityRef) -> Mapping[str, Any]:
    """Stop the deployment's jobs that have not begun; the deployment as it stands then.

    A job that has begun goes on. Each stopped one fails with that reason and gives back all it holds. Stopped
    are all that the answer counts as ``queued``, and those of ``running`` whose driver was not called yet.

    Raises:
        PermissionDenied: the deployment is of somebody the caller may not act for.
        InvalidParameter: all its jobs are finished, or it was cancelled before.
    """
    account_id = store.deployment_owner(connection, deployment.id)
    require_access(connection, caller, account_id, f"deployment {deployment.uuid}")
    if not store.is_bulk(connection, deployment.id):
        raise InvalidParameter("id", str(deployment.uuid), "it is a single deployment: destroy its virtual machine")
    if not store.request_cancel(connection, deployment.id):
        raise InvalidParameter("id", str(deployment.uuid), "all its jobs are finished, or it was cancelled before")
    return list_bulk_deployments(connection, Visibility(), {"id": deployment}, Paging(limit=1)).rows[0]


def spread_rows(connection: Connection, plans: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stored plans as answered: ``clusters``, ``excluded``, ``skew`` and ``planner`` of each."""
    names = store.plan_clusters(connection, plans)
    return [
        {
            "clusters": [
                {**names[cluster], "before": before, "added": added, "after": before + added, "capacity": capacity}
                for cluster, before, added, capacity in zip(
                    plan["clusters"], plan["before"], plan["added"], plan["room"], strict=True
                )
            ],
            "excluded": excluded_rows(plan["excluded"]),
            "skew": _skew(plan),
            "planner": plan.get("planner"),
        }
        for plan in plans
    ]


def _as_it_is_now(
    connection: Connection, deployment_id: int, plan: Mapping[str, Any], clusters: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    succeeded = store.count_succeeded(connection, deployment_id)
    return {
        "clusters": [
            {**row, "succeeded": succeeded.get(cluster, 0)}
            for cluster, row in zip(plan["clusters"], clusters, strict=True)
        ],
        "slowest": store.slowest_jobs(connection, deployment_id, MOST_SLOW),
    }


def answered_hosts(connection: Connection, answers: Sequence[HostAnswer]) -> list[dict[str, Any]]:
    """What the rules say of hosts, one row each."""
    places = store.plan_hosts(connection, [answer.host_id for answer in answers])
    return [
        {**places[answer.host_id], "capacity": answer.capacity, **reason_fields(answer.reason)}
        for answer in answers
        if answer.host_id in places
    ]


def _skew(plan: Mapping[str, Any]) -> int:
    """The largest difference, after the call, between clusters that could take VMs."""
    after = [before + added for before, added in zip(plan["before"], plan["added"], strict=True)]
    return max(after) - min(after) if after else 0


def _state(row: Mapping[str, Any], jobs: Mapping[str, Any]) -> str:
    if row["cancel_requested"] is not None:
        return "Cancelled"
    return "InProgress" if jobs.get("queued", 0) + jobs.get("running", 0) > 0 else "Completed"


def _failure(row: Mapping[str, Any]) -> dict[str, Any]:
    result = orjson.loads(row["result"])
    return {
        "jobid": row["jobid"],
        "virtualmachineid": row["virtualmachineid"],
        "errorcode": result["errorcode"],
        "errortext": result["errortext"],
    }
