"""The execution of API commands: reads the arguments, calls the API, waits for jobs, and prints the result."""

import uuid
from collections.abc import Mapping
from typing import Any

from bulkdeploy.cli.arguments import Arguments, check_values, read_arguments
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.catalogue import Api
from bulkdeploy.cli.connection.entities import PAGE, rows_of
from bulkdeploy.cli.connection.naming import resolve_names
from bulkdeploy.cli.deployments.jobs import result_of, short_form
from bulkdeploy.cli.deployments.placement_facts import clusters_of_jobs, host_ids, hosts_by_id
from bulkdeploy.cli.deployments.plan_report import is_plan, show_plan
from bulkdeploy.cli.deployments.remedies import remedy
from bulkdeploy.cli.deployments.summary import all_failures, summary_parts
from bulkdeploy.cli.deployments.watching import DeploymentWatch, Watch
from bulkdeploy.cli.failures import ApiRefused, Interrupted, JobsFailed, UsageError

TOKEN = "requesttoken"  # noqa: S105 - a parameter's name
MOST_PAGES = 1000
INSUFFICIENT_CAPACITY = (533, 534, 535)
"""Error codes whose text tells what is missing but not what the user can do."""


def run_api(context: CommandContext, api: Api, words: list[str]) -> None:
    """Call one API with the parameters in ``words``, wait for its jobs if it is asynchronous, and print the result.

    Raises:
        CommandFailed: the call or one of its jobs failed. The subclass names the cause.
    """
    arguments = read_arguments(api, [*words, *_flags(context, api)], send_unknown=context.options.send_unknown)
    check_values(api, arguments.parameters)
    if any((value := api.value(name)) and value.names_entities for name in arguments.parameters):
        resolve_names(context.catalogue, api, arguments.parameters, context.call, context.screen.print_message)
    answer = answer_to(context, api, arguments)
    if is_plan(answer):
        show_plan(context.screen, answer, arguments.filter)
        return
    job_id = answer.get("jobid")
    if api.is_async and isinstance(job_id, str | int):
        _see_job_through(context, api, answer, str(job_id), arguments)
        return
    batch = [row for row in rows_of(answer) if row.get("jobid") and "jobstatus" in row]
    if batch and not api.only_reads:
        _see_batch_through(context, answer, batch, arguments)
        return
    _show_list(context, api, answer, arguments)


def _flags(context: CommandContext, api: Api) -> list[str]:
    """Return the API parameters of options such as ``--dry-run`` as ``name=true``.

    Raises:
        UsageError: the API has no such parameter.
    """
    flags = {"dryrun": context.options.dry_run, "partial": context.options.partial}
    for name, given in flags.items():
        if given and api.parameter(name) is None:
            raise UsageError(f"{api.name} has no parameter {name}")
    return [f"{name}=true" for name, given in flags.items() if given]


def answer_to(context: CommandContext, api: Api, arguments: Arguments) -> dict[str, Any]:
    """Call the API and return the response.

    A call with a request token may be repeated, because it returns the same jobs.
    """
    parameters = arguments.parameters
    plans_only = parameters.get("dryrun", "").lower() == "true"
    if api.parameter(TOKEN) is not None and not plans_only:
        parameters.setdefault(TOKEN, str(uuid.uuid4()))
    repeatable = True if TOKEN in parameters and api.parameter(TOKEN) is not None else None
    try:
        return context.transport.call(api.name, parameters, repeatable=repeatable)
    except ApiRefused as error:
        if error.errorcode in INSUFFICIENT_CAPACITY:
            error.hint = error.hint or remedy(error.errorcode, error.errortext)
        raise
    except KeyboardInterrupt:
        if api.only_reads:
            raise
        raise Interrupted(
            f"Interrupted before {api.name} returned a response: the call may have been executed nevertheless"
        ) from None


def _see_job_through(
    context: CommandContext, api: Api, answer: Mapping[str, Any], job_id: str, arguments: Arguments
) -> None:
    if not context.preferences.asyncblock:
        context.screen.show(answer, arguments.filter)
        context.screen.print_message(f"The job continues. To see its result: {context.program} follow {job_id}")
        return
    follow_job(context, job_id, api.name, arguments.filter)


def follow_job(context: CommandContext, job_id: str, label: str, fields: tuple[str, ...]) -> None:
    """Wait until a job has ended, and print its result. ``label`` is shown while waiting.

    Raises:
        JobFailed: the job failed.
        TimedOut, Interrupted: the time limit passed, or the user pressed Ctrl-C.
    """
    job = context.follower.job(job_id, label)
    context.screen.show(result_of(job), fields)


def _see_batch_through(
    context: CommandContext, answer: Mapping[str, Any], batch: list[Mapping[str, Any]], arguments: Arguments
) -> None:
    watch = context.watch([str(row["jobid"]) for row in batch], str(batch[0].get("deploymentid") or ""))
    if not context.preferences.asyncblock:
        context.screen.show(answer, arguments.filter)
        context.screen.print_message(f"{len(batch)} jobs go on. Follow them: {context.program} follow {watch.name}")
        return
    context.screen.print_message(
        f"{len(batch)} jobs, {'deployment' if batch[0].get('deploymentid') else 'batch'} {watch.name}"
    )
    key = next(name for name, value in answer.items() if isinstance(value, list))
    follow_batch(context, watch, arguments.filter, key=key, order=[str(row["jobid"]) for row in batch])


def follow_batch(
    context: CommandContext, watch: Watch, fields: tuple[str, ...], *, key: str = "asyncjobs", order: list[str]
) -> None:
    """Wait for the jobs of a batch.

    Then print a summary on a terminal, or the finished jobs in other output formats.

    With ``--full``, all fields of each job are printed, else the main ones. ``fields`` selects fields of either.

    Raises:
        JobsFailed: some jobs failed.
    """
    began = context.clock.now()
    progress = context.follower.batch(watch)
    seconds = context.clock.now() - began
    jobs = sorted(watch.jobs, key=_position(order))
    screen = context.screen
    if len(jobs) < progress.total:
        screen.warn(f"{progress.total - len(jobs)} jobs could not be read from the server's list of jobs")
    deployment = watch.row if isinstance(watch, DeploymentWatch) else {}

    def call_in_turn(command: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        watch.budget.turn()
        return context.call(command, parameters)

    clusters = deployment.get("clusters") or clusters_of_jobs(
        jobs, hosts_by_id(context.catalogue, call_in_turn, host_ids(jobs))
    )
    parts = summary_parts(progress, jobs, deployment, clusters, seconds)
    if screen.format == "table":
        screen.render(*parts)
    else:
        rows = jobs if context.options.full else [{**(job if fields else {}), **short_form(job)} for job in jobs]
        screen.show({"count": len(rows), key: rows}, fields)
        screen.report(*parts)
    if progress.failed:
        hint = f"Why: {context.program} explain {watch.name}" if deployment else ""
        cancelled = sum(failure.cancelled for failure in all_failures(jobs, deployment))
        raise JobsFailed(progress.failed, cancelled, progress.total, hint=hint)


def _position(order: list[str]) -> Any:
    """Return a function that returns the sort key of a job, to order jobs by their creation."""
    places = {job_id: place for place, job_id in enumerate(order)}
    return lambda job: places.get(str(job.get("jobid")), len(places))


def _show_list(context: CommandContext, api: Api, answer: dict[str, Any], arguments: Arguments) -> None:
    rows, total = rows_of(answer), answer.get("count")
    if isinstance(total, int) and 0 < len(rows) < total and "page" not in arguments.parameters:
        if context.options.all_pages and api.parameter("page") is not None:
            answer = _all_pages(context, api, answer, arguments)
        else:
            context.screen.print_message(f"{len(rows)} of {total} shown; --all reads every page")
    known = {name.lower() for name, _, _ in api.fields} | {name.lower() for row in rows for name in row}
    wrong = [name for name in arguments.filter if name.lower() not in known]
    if rows and api.fields and wrong:
        context.screen.print_message(
            f"{api.name} answers no {', '.join(wrong)}; {api.verb} {api.noun} -h lists its fields"
        )
    context.screen.show(answer, arguments.filter)


def _all_pages(context: CommandContext, api: Api, answer: dict[str, Any], arguments: Arguments) -> dict[str, Any]:
    """Read the whole list again page by page and return it.

    The first response is not used, because its order can differ from the order of pages.
    """
    key = next(name for name, value in answer.items() if isinstance(value, list))
    size = min(PAGE, len(rows_of(answer)))
    rows: list[Mapping[str, Any]] = []
    for page in range(1, MOST_PAGES + 1):
        requested = {**arguments.parameters, "page": str(page), "pagesize": str(size)}
        found = rows_of(context.call(api.name, requested))
        rows += found
        if len(found) < size:
            break
    return {"count": len(rows), key: rows}
