"""The reasons for the placement or failure of a job's or deployment's VMs, derived from the API alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulkdeploy.cli.connection.catalogue import Catalogue
from bulkdeploy.cli.connection.entities import Caller, rows_of
from bulkdeploy.cli.deployments.batch_report import grouped, number, skew_of, vms
from bulkdeploy.cli.deployments.jobs import (
    has_succeeded,
    is_finished,
    result_of,
    seconds_taken,
    virtual_machine_of,
)
from bulkdeploy.cli.deployments.placement_facts import hosts_by_id
from bulkdeploy.cli.deployments.remedies import remedy_of
from bulkdeploy.cli.deployments.summary import all_failures
from bulkdeploy.cli.failures import ApiRefused

UNKNOWN_ID, UNAVAILABLE = 431, 432
DISPERSING = "UserDispersingPlanner"


def find_deployment(catalogue: Catalogue, call: Caller, deployment_id: str) -> Mapping[str, Any] | None:
    """Return the deployment with this id, or None if there is none or the API does not support deployments."""
    if not deployment_id or catalogue.get("listBulkDeployments") is None:
        return None
    try:
        rows = rows_of(call("listBulkDeployments", {"id": deployment_id, "listall": "true"}))
    except ApiRefused as error:
        if error.errorcode in (UNKNOWN_ID, UNAVAILABLE):
            return None
        raise
    return next((row for row in rows if row.get("id") == deployment_id), None)


def explain_job(catalogue: Catalogue, call: Caller, job_id: str) -> dict[str, Any]:
    """Return the facts of a job: its state and its VM's host with the reason, or its failure with a remedy.

    Raises:
        ApiRefused: no job with this id exists, or the caller may not see it.
    """
    job = {"jobid": job_id, **call("queryAsyncJobResult", {"jobid": job_id})}
    vm = _virtual_machine(catalogue, call, job)
    hosts = hosts_by_id(catalogue, call, {str(vm["hostid"])} if vm.get("hostid") else set())
    deployment = find_deployment(catalogue, call, str(job.get("deploymentid") or "")) or {}
    facts = _placed(job, vm, hosts) | {"deploymentid": job.get("deploymentid"), "cmd": job.get("cmd")}
    facts |= _outcome(job)
    if facts["result"] == "succeeded" and facts.get("clusterid"):
        facts["why"] = why_cluster(facts, deployment)
    return {name: value for name, value in facts.items() if value not in (None, "")}


def explain_deployment(
    catalogue: Catalogue, call: Caller, deployment: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the facts of a deployment: the host of every VM, failures by reason, and the reasons for its spread.

    ``jobs`` are the finished jobs of the deployment. Each cluster has the reason for its number of VMs.
    """
    clusters = deployment.get("clusters") or []
    machines = {str(job.get("jobinstanceid")): virtual_machine_of(job) for job in jobs}
    wanted = {str(vm["hostid"]) for vm in machines.values() if vm.get("hostid")}
    hosts = hosts_by_id(catalogue, call, wanted, deployment.get("zoneid"))
    failures = all_failures(jobs, deployment)
    placed = [_placed(job, machines[str(job.get("jobinstanceid"))], hosts) | _outcome(job) for job in jobs]
    return {
        "deployment": {key: value for key, value in deployment.items() if not isinstance(value, list)},
        "clusters": [{**cluster, "why": why_cluster(cluster, deployment)} for cluster in clusters],
        "skew": deployment.get("skew", skew_of(clusters)),
        "excluded": deployment.get("excluded") or [],
        "cancelled": sum(failure.cancelled for failure in failures),
        "failures": [group.as_row() for group in grouped(failures)],
        "virtualmachine": [{key: value for key, value in row.items() if value not in (None, "")} for row in placed],
    }


def why_cluster(cluster: Mapping[str, Any], deployment: Mapping[str, Any]) -> str:
    """Return the reason why a cluster got its number of a deployment's VMs, derived from counts and capacity.

    The planner DISPERSING first fills the clusters in which the owner has the fewest VMs, level by level, within
    their capacity. ``listDeploymentPlanners`` describes the other planners.
    """
    known = {str(one.get("clusterid")): one for one in deployment.get("clusters") or ()}
    mine = known.get(str(cluster.get("clusterid")))
    if mine is None:
        return ""
    before, added, capacity = number(mine, "before"), number(mine, "added"), number(mine, "capacity")
    level = max(
        (number(one, "before") + number(one, "added") for one in known.values() if number(one, "added")), default=0
    )
    if added == 0 and capacity == 0:
        return "no room for another such VM"
    if deployment.get("planner") not in (None, DISPERSING):
        return f"chosen by {deployment['planner']}; list deploymentplanners says how" if added else "not needed"
    if added == 0:
        return f"the owner already had {vms(before)} here, and clusters with fewer came first (up to {level})"
    if added == capacity and before + added < level:
        return f"filled up: there was room for {capacity} more"
    others = len(known) - 1
    if not others:
        return "the only cluster that qualified"
    return f"the owner had {vms(before)} here; clusters with fewest are filled first, evenly, up to {level}"


def _virtual_machine(catalogue: Catalogue, call: Caller, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the present state of the job's VM, or its state in the job's result if the VM cannot be read."""
    then = virtual_machine_of(job)
    vm_id = job.get("jobinstanceid") or then.get("id")
    if not vm_id or catalogue.get("listVirtualMachines") is None:
        return then
    try:
        rows = rows_of(call("listVirtualMachines", {"id": str(vm_id), "listall": "true"}))
    except ApiRefused:
        return then
    return then | dict(rows[0]) if rows else then


def _placed(
    job: Mapping[str, Any], vm: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    host = hosts.get(str(vm.get("hostid")), {})
    return {
        "name": vm.get("name"),
        "id": vm.get("id") or job.get("jobinstanceid"),
        "state": vm.get("state"),
        "zonename": vm.get("zonename") or host.get("zonename"),
        "podname": host.get("podname"),
        "clustername": host.get("clustername"),
        "clusterid": host.get("clusterid"),
        "hostname": vm.get("hostname") or host.get("name"),
        "jobid": job.get("jobid"),
    }


def _outcome(job: Mapping[str, Any]) -> dict[str, Any]:
    if not is_finished(job):
        return {"result": "in progress", "created": job.get("created")}
    facts = {"seconds": seconds_taken(job)}
    if has_succeeded(job):
        return facts | {"result": "succeeded"}
    result = result_of(job)
    code, text = result.get("errorcode"), str(result.get("errortext") or "no reason given")
    return facts | {"result": "failed", "errorcode": code, "errortext": text, "help": remedy_of(result)}
