"""Bulk deployments after the response to their call: list as a whole, and cancel."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.placement.model import HostAnswer
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.scheduling.reasons import excluded_rows, reason_fields
from bulkdeploy.services.jobs.bulk_jobs import failure_row, new_job_fields, operation_state
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.deployments import deployments as store
from bulkdeploy.store.deployments.managed_deployments import read_managed
from bulkdeploy.store.deployments.new_vms import CallPart
from bulkdeploy.store.deployments.replacements import read_replacements
from bulkdeploy.store.jobs.bulk_operations import request_cancel
from bulkdeploy.store.jobs.job_groups import JOB_COUNTS, JobGroup, count_jobs, failures_of, slowest_jobs
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Page, Paging
from bulkdeploy.store.rows.visibility import Visibility

MOST_FAILURES = 100
MOST_SLOW = 5


def list_bulk_deployments(
    connection: Connection, visible: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """Return one row per bulk deployment, with its jobs by state, its spread over clusters and its failures.

    If one deployment is requested by id, the row also contains the present usage of its clusters and its slowest
    jobs.
    """
    page = store.list_deployments(connection, visible, arguments, paging)
    ids = [row["_id"] for row in page.rows]
    jobs = count_jobs(connection, JobGroup.DEPLOYMENT, ids)
    failures = failures_of(connection, JobGroup.DEPLOYMENT, ids, MOST_FAILURES)
    spreads = spread_rows(connection, [row["plan"] for row in page.rows])
    managed = read_managed(connection, ids)
    replaced = read_replacements(connection, list(managed)) if managed else {}
    if "id" in arguments and len(ids) == 1:
        spreads = [spreads[0] | _as_it_is_now(connection, ids[0], page.rows[0]["plan"], spreads[0]["clusters"])]
    rows = [
        {
            **{key: row[key] for key in row if key not in ("_id", "plan", "cancel_requested")},
            **jobs.get(row["_id"], dict.fromkeys(JOB_COUNTS, 0)),
            **spread,
            **managed.get(row["_id"], {}),
            **({"replacement": [replaced[row["_id"]]]} if row["_id"] in replaced else {}),
            "state": operation_state(row, jobs.get(row["_id"], {})),
            "failures": [failure_row(failure) for failure in failures.get(row["_id"], [])],
        }
        for row, spread in zip(page.rows, spreads, strict=True)
    ]
    return Page(rows, page.count)


def cancel_bulk_deployment(connection: Connection, caller: Caller, deployment: EntityRef) -> Mapping[str, Any]:
    """Cancel the deployment's jobs that no worker has leased, and return the deployment's row.

    The row counts the cancelled jobs as ``queued``. Each of them fails with the cancellation as its reason and
    releases all its claims. The row counts leased jobs as ``running``; these jobs run to their end.

    Raises:
        PermissionDenied: the caller may not act for the deployment's account.
        InvalidParameter: all jobs of the deployment are finished, or it was cancelled before.
    """
    account_id = store.deployment_owner(connection, deployment.id)
    require_access(connection, caller, account_id, f"deployment {deployment.uuid}")
    if not store.is_bulk(connection, deployment.id):
        raise InvalidParameter(
            "id",
            str(deployment.uuid),
            "it is the deployment of a single virtual machine: destroy the virtual machine instead",
        )
    if not request_cancel(connection, JobGroup.DEPLOYMENT, deployment.id):
        raise InvalidParameter("id", str(deployment.uuid), "all its jobs are finished, or it was cancelled before")
    return list_bulk_deployments(connection, Visibility(), {"id": deployment}, Paging(limit=1)).rows[0]


def spread_rows(connection: Connection, plans: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return stored plans as response fields: clusters, excluded hosts, skew, planner and allocator."""
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
            "allocator": plan.get("allocator"),
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
        "slowest": slowest_jobs(connection, JobGroup.DEPLOYMENT, deployment_id, MOST_SLOW),
    }


def answered_hosts(connection: Connection, answers: Sequence[HostAnswer]) -> list[dict[str, Any]]:
    """Return the results of the placement rules for hosts, as one API row per host."""
    places = store.plan_hosts(connection, [answer.host_id for answer in answers])
    return [
        {**places[answer.host_id], "capacity": answer.capacity, **reason_fields(answer.reason)}
        for answer in answers
        if answer.host_id in places
    ]


def job_rows(
    caller: Caller, deployed: store.DeployedVms, positions: Sequence[int]
) -> Mapping[int, Mapping[str, Any]]:
    """Return the job object of each of these VMs, by the VM's position in the call.

    Each job object contains the id of the deployment. The format is described in cloudstack-protocol.md 0.6.
    """
    shared = {**new_job_fields(caller, DEPLOY.command_class, deployed.created), "deploymentid": deployed.uuid}
    return {
        at: {**shared, "jobid": deployed.job_uuids[at], "jobinstanceid": deployed.vm_uuids[at]} for at in positions
    }


def deployed_places(connection: Connection, deployed: store.DeployedVms) -> list[dict[str, Any]]:
    """Return the hosts and pools of a list call's VMs, in the order of the list, with their entries and jobs."""
    rows = store.vm_places(connection, deployed.vm_uuids)
    named = _PlaceNames(
        connection, {row.host_id for row in rows.values()}, {pool for row in rows.values() for pool in row.pool_ids}
    )
    return [
        {
            "index": entry,
            "name": rows[vm_uuid].name,
            "virtualmachineid": vm_uuid,
            "jobid": job_uuid,
            **named.of(rows[vm_uuid].host_id, rows[vm_uuid].pool_ids),
        }
        for entry, vm_uuid, job_uuid in zip(
            deployed.listed["entries"], deployed.vm_uuids, deployed.job_uuids, strict=True
        )
        if vm_uuid in rows
    ]


def planned_places(connection: Connection, parts: Sequence[CallPart]) -> list[dict[str, Any]]:
    """Return the planned hosts and pools of a dry run's VMs, in the order of the list, with their entries."""
    placed = [part for part in parts if part.plan is not None]
    hosts = {host for part in placed for host in part.plan.host_ids.tolist()}  # type: ignore[union-attr]
    pools = {pool for part in placed for pool in np.unique(part.plan.pool_ids).tolist()}  # type: ignore[union-attr]
    named = _PlaceNames(connection, hosts, pools)
    found: dict[int, dict[str, Any]] = {}
    for part in parts:
        for row, (at, vm) in enumerate(zip(part.numbers.tolist(), part.named, strict=True)):
            place: dict[str, Any] = {}
            if part.plan is not None:
                place = named.of(int(part.plan.host_ids[row]), part.plan.pool_ids[row].tolist())
            found[at] = {"index": vm.entry, "name": vm.name, **place}
    return [found[at] for at in sorted(found)]


def host_rows(connection: Connection, parts: Sequence[CallPart]) -> list[dict[str, Any]]:
    """Return the hosts that a dry run selects, the host with most VMs first, and the pools of the volumes."""
    vms: Counter[int] = Counter()
    pools: dict[int, set[int]] = {}
    for part in parts:
        if part.plan is not None:
            vms.update(part.plan.host_ids.tolist())
            for host_id, row in zip(part.plan.host_ids.tolist(), part.plan.pool_ids.tolist(), strict=True):
                pools.setdefault(host_id, set()).update(row)
    names = store.plan_hosts(connection, list(vms))
    uuids = store.pool_uuids(connection, sorted(set().union(*pools.values())))
    return [
        {
            **names[host_id],
            "count": count,
            "pools": [uuids[pool] for pool in sorted(pools.get(host_id, ())) if pool in uuids],
        }
        for host_id, count in sorted(vms.items(), key=lambda each: (-each[1], each[0]))
        if host_id in names
    ]


class _PlaceNames:
    """The names and ids of hosts and pools in API responses, by internal id."""

    def __init__(self, connection: Connection, host_ids: Iterable[int | None], pool_ids: Iterable[int]) -> None:
        self._hosts = store.plan_hosts(connection, [host_id for host_id in host_ids if host_id is not None])
        self._pools = store.pool_uuids(connection, list(pool_ids))

    def of(self, host_id: int | None, pool_ids: Sequence[int]) -> dict[str, Any]:
        """Return the response fields with ids and names of a VM's host, cluster, pod and storage pools."""
        host = self._hosts.get(host_id, {}) if host_id is not None else {}
        place: dict[str, Any] = {
            name: host[name] for name in ("hostid", "hostname", "clusterid", "podid") if name in host
        }
        return {**place, "pools": [self._pools[pool] for pool in pool_ids if pool in self._pools]}


def _skew(plan: Mapping[str, Any]) -> int:
    """Return the difference between the largest and the smallest number of VMs per cluster after the call."""
    after = [before + added for before, added in zip(plan["before"], plan["added"], strict=True)]
    return max(after) - min(after) if after else 0
