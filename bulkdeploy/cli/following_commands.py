"""``bulkmonkey follow`` and ``explain``: the progress and the reasons of a deployment, a job or a VM."""

from collections.abc import Sequence

from bulkdeploy.cli.api_commands import follow_batch, follow_job
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.entities import rows_of
from bulkdeploy.cli.deployments.explain import explain_deployment, explain_job, find_deployment
from bulkdeploy.cli.deployments.explain_report import show_deployment, show_job
from bulkdeploy.cli.deployments.jobs import JOB_PAGE
from bulkdeploy.cli.deployments.subject_jobs import find_job_id
from bulkdeploy.cli.deployments.watching import Budget, DeploymentWatch
from bulkdeploy.cli.failures import UsageError
from bulkdeploy.cli.planning.explain_hosts import requested_hosts, show_hosts

FILTER = "filter="


def follow(context: CommandContext, words: Sequence[str]) -> None:
    """Show the progress of a deployment or of jobs until they have ended."""
    names, fields = _names_and_filter(words)
    if not names:
        names = [_newest_unfinished(context)]
    jobs = names if len(names) > 1 else context.batches.find(names[0])
    if jobs:
        follow_batch(context, context.watch(jobs), fields, order=list(jobs))
        return
    if find_deployment(context.catalogue, context.call, names[0]) is not None:
        follow_batch(context, context.watch((), names[0]), fields, order=[])
        return
    job_id = find_job_id(context.catalogue, context.call, names[0], context.screen.print_message)
    follow_job(context, job_id, f"job {job_id}", fields)


def _newest_unfinished(context: CommandContext) -> str:
    if context.catalogue.get("listBulkDeployments") is None:
        raise UsageError(
            "no deployment or job is named",
            hint="bulkmonkey follow DEPLOYMENT or JOB; this API lists no deployments",
        )
    rows = rows_of(context.call("listBulkDeployments", {"listall": "true"}))
    unfinished = [row for row in rows if row.get("state") == "InProgress"]
    if not unfinished:
        raise UsageError(
            "no deployment is in progress; name the one to follow", hint="bulkmonkey follow DEPLOYMENT or JOB"
        )
    newest = max(unfinished, key=lambda row: str(row.get("created") or ""))
    context.screen.print_message(f"The newest deployment in progress is {newest['id']}")
    return str(newest["id"])


def explain(context: CommandContext, words: Sequence[str]) -> None:
    """Print the hosts of VMs and the reasons for them, or the reasons of failures.

    With ``host=NAME``, print the reasons why this host can or cannot run the VMs.
    """
    hosts, others = requested_hosts(list(words))
    names, fields = _names_and_filter(others)
    if len(names) != 1:
        hint = "bulkmonkey explain DEPLOYMENT, JOB or VM (an id, or the name of a VM); host=NAME for one host"
        raise UsageError("explain what?", hint=hint)
    if hosts:
        show_hosts(context, names[0], hosts, fields)
        return
    deployment = find_deployment(context.catalogue, context.call, names[0])
    if deployment is None:
        job_id = find_job_id(context.catalogue, context.call, names[0], context.screen.print_message)
        facts = explain_job(context.catalogue, context.call, job_id)
        show_job(context.screen, facts, fields)
        return
    watch = DeploymentWatch(context.call, Budget(context.clock), names[0])
    watch.step()
    for position in watch.read_rest():
        if watch.progress.total > JOB_PAGE:
            context.screen.print_message(f"reading jobs, {position}")
    facts = explain_deployment(context.catalogue, context.call, watch.row, watch.jobs)
    show_deployment(context.screen, facts, fields)


def _names_and_filter(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    filters = [word.removeprefix(FILTER) for word in words if word.startswith(FILTER)]
    names = [word for word in words if not word.startswith(FILTER)]
    wrong = [name for name in names if "=" in name]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not expected here")
    fields = tuple(field.strip() for text in filters for field in text.split(",") if field.strip())
    return [part for name in names for part in name.split(",") if part], fields
