"""The reasons why hosts cannot run a VM of a deployment or job, for the zone's present state."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.entities import rows_of
from bulkdeploy.cli.connection.naming import resolve_names
from bulkdeploy.cli.deployments.batch_report import host_table
from bulkdeploy.cli.deployments.explain import find_deployment
from bulkdeploy.cli.deployments.subject_jobs import find_job_id
from bulkdeploy.cli.failures import UsageError

HOST_WORDS = ("host=", "hosts=", "hostid=", "hostids=")
COLUMNS = ("hostname", "clustername", "capacity", "reason", "text", "remedy", "hostid")


def requested_hosts(words: list[str]) -> tuple[str, list[str]]:
    """Return the hosts in the argument ``host=``, separated by commas, and the other words."""
    named = [word.partition("=")[2] for word in words if word.lower().startswith(HOST_WORDS)]
    return ",".join(named), [word for word in words if not word.lower().startswith(HOST_WORDS)]


def show_hosts(context: CommandContext, wanted: str, names: str, fields: tuple[str, ...]) -> None:
    """Print whether hosts (names or ids) can run more VMs of a deployment, or the VM of a job, with the reasons.

    Raises:
        UsageError: the host, deployment, job or VM does not exist, or the API does not explain hosts.
        ApiRefused: the caller may not see hosts.
    """
    deployment = find_deployment(context.catalogue, context.call, wanted)
    if deployment is None:
        job_id = find_job_id(context.catalogue, context.call, wanted, context.screen.print_message)
        job = context.call("queryAsyncJobResult", {"jobid": job_id})
        deployment = find_deployment(context.catalogue, context.call, str(job.get("deploymentid") or ""))
        if deployment is None:
            _show(context, _for_migration(context, str(job.get("jobinstanceid") or ""), names), fields)
            return
    row = _of_deployment(context, str(deployment["id"]), names)
    _show(context, row.get("hosts") or [], fields)


def _of_deployment(context: CommandContext, deployment_id: str, names: str) -> Mapping[str, Any]:
    api = context.catalogue.get("listBulkDeployments")
    if api is None or api.parameter("hostids") is None:
        raise UsageError("this API does not report why hosts cannot get VMs")
    requested = {"id": deployment_id, "listall": "true", "hostids": names}
    resolve_names(context.catalogue, api, requested, context.call, context.screen.print_message)
    return next(iter(rows_of(context.call(api.name, requested))), {})


def _for_migration(context: CommandContext, vm_id: str, names: str) -> list[dict[str, Any]]:
    """Return the hosts to which a VM that was deployed alone could move."""
    if context.catalogue.get("findHostsForMigration") is None:
        raise UsageError("this API does not report why hosts cannot get VMs")
    wanted = {name.lower() for name in names.split(",")}
    answer = context.call("findHostsForMigration", {"virtualmachineid": vm_id})
    found = [row for row in rows_of(answer) if {str(row.get("name")).lower(), str(row.get("id"))} & wanted]
    if not found:
        raise UsageError(
            f"the VM could not move to {names}: it already runs there, or"
            " its volumes or its address do not allow it"
        )
    return [
        {
            **row,
            "hostid": row.get("id"),
            "hostname": row.get("name"),
            "capacity": int(bool(row["suitableformigration"])),
        }
        for row in found
    ]


def _show(context: CommandContext, hosts: Sequence[Mapping[str, Any]], fields: tuple[str, ...]) -> None:
    if context.screen.format == "table":
        context.screen.render(host_table(hosts))
    else:
        context.screen.show({"host": [{name: row.get(name) for name in COLUMNS} for row in hosts]}, fields)
