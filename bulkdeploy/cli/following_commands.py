"""``bulkmonkey follow`` and ``explain``: what becomes of a deployment or a job, and why."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bulkdeploy.cli.api_commands import follow_batch, follow_job
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.entities import rows_of
from bulkdeploy.cli.deployments.explain import UNKNOWN_ID, explain_deployment, explain_job, find_deployment
from bulkdeploy.cli.deployments.explain_report import show_deployment, show_job
from bulkdeploy.cli.deployments.jobs import JOB_PAGE
from bulkdeploy.cli.deployments.watching import Budget, DeploymentWatch
from bulkdeploy.cli.explain_hosts import requested_hosts, show_hosts
from bulkdeploy.cli.failures import ApiRefused, UsageError

FILTER = "filter="


def follow(context: CommandContext, words: Sequence[str]) -> None:
    """Show a deployment or jobs until they are finished."""
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
    with _naming_what_is_wanted():
        follow_job(context, names[0], f"job {names[0]}", fields)


@contextmanager
def _naming_what_is_wanted() -> Iterator[None]:
    """Where the API knows no such job, say in a person's words what was looked for."""
    try:
        yield
    except ApiRefused as error:
        if error.errorcode == UNKNOWN_ID:
            error.hint = "No deployment and no job that this user may see has this id: see 'list asyncjobs'"
        raise


def _newest_unfinished(context: CommandContext) -> str:
    if context.catalogue.get("listBulkDeployments") is None:
        raise UsageError("follow what?", hint="bulkmonkey follow DEPLOYMENT or JOB; this API lists no deployments")
    rows = rows_of(context.call("listBulkDeployments", {"listall": "true"}))
    unfinished = [row for row in rows if row.get("state") == "InProgress"]
    if not unfinished:
        raise UsageError("follow what? No deployment is in progress", hint="bulkmonkey follow DEPLOYMENT or JOB")
    newest = max(unfinished, key=lambda row: str(row.get("created") or ""))
    context.screen.say(f"The newest deployment in progress is {newest['id']}")
    return str(newest["id"])


def explain(context: CommandContext, words: Sequence[str]) -> None:
    """Say where VMs went and why, or why they failed, or why none went to a host."""
    hosts, others = requested_hosts(list(words))
    names, fields = _names_and_filter(others)
    if len(names) != 1:
        raise UsageError("explain what?", hint="bulkmonkey explain DEPLOYMENT or JOB, host=NAME for one host")
    if hosts:
        with _naming_what_is_wanted():
            show_hosts(context, names[0], hosts, fields)
        return
    deployment = find_deployment(context.catalogue, context.call, names[0])
    if deployment is None:
        with _naming_what_is_wanted():
            facts = explain_job(context.catalogue, context.call, names[0])
        show_job(context.screen, facts, fields)
        return
    watch = DeploymentWatch(context.call, Budget(context.clock), names[0])
    watch.step()
    for position in watch.read_rest():
        if watch.progress.total > JOB_PAGE:
            context.screen.say(f"reading jobs, {position}")
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
