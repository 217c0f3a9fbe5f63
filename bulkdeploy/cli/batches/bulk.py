"""``bulk``: shows an operation on many VMs, asks for confirmation, runs it, and waits for its end."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bulkdeploy.cli.api_commands import answer_to, follow_batch
from bulkdeploy.cli.arguments import Arguments, check_values, read_arguments
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.catalogue import Api
from bulkdeploy.cli.connection.naming import resolve_names
from bulkdeploy.cli.failures import UsageError

MOST_NAMES = 5
EXPECTED = "expectedcount"


def bulk(context: CommandContext, words: Sequence[str]) -> None:
    """Run an operation on the VMs that filters select: ``stop virtualmachines state=Running``.

    The VMs are confirmed at a terminal, unless ``--yes`` is given. The call is rejected if the selection has
    another size by then. ``--dry-run`` only shows the VMs.

    Raises:
        UsageError: the API has no such operation or parameter, or the user does not confirm.
        ApiRefused: the API rejected the call. Nothing was changed.
        JobsFailed, TimedOut: some jobs failed, or did not end in time.
    """
    verb, rest = words[0], list(words[2:])
    api = context.catalogue.get(f"bulk{verb}VirtualMachine")
    if api is None:
        raise UsageError(f"this API has no operation {verb!r} on many virtual machines")
    if context.options.partial:
        rest.append("partial=true")
    arguments = read_arguments(api, rest)
    check_values(api, arguments.parameters)
    resolve_names(context.catalogue, api, arguments.parameters, context.call, context.screen.print_message)
    plan = context.call(api.name, {**arguments.parameters, "dryrun": "true"})["bulkoperation"]
    if context.options.dry_run or arguments.parameters.get("dryrun") == "true":
        _show_plan(context, plan, arguments)
        return
    if not context.options.yes and sys.stdin.isatty() and not _is_confirmed(verb, plan):
        raise UsageError(
            "nothing was changed, because the operation was not confirmed", hint="--yes skips the confirmation"
        )
    if int(plan["count"]):
        arguments.parameters.setdefault(EXPECTED, str(int(plan["count"]) + len(plan.get("failed") or ())))
    _follow(context, api, arguments)


def _follow(context: CommandContext, api: Api, arguments: Arguments) -> None:
    answer = answer_to(context, api, arguments)
    jobs = [str(job["jobid"]) for job in answer["asyncjobs"]]
    for failed in answer.get("failed") or ():
        context.screen.warn(f"{failed['name']} was left out: {failed['errortext']}")
    if not context.preferences.asyncblock:
        context.screen.show(answer, arguments.filter)
        context.screen.print_message(
            f"{len(jobs)} jobs go on: {context.program} list bulkoperations id={answer['operationid']}"
        )
        return
    context.screen.print_message(f"{len(jobs)} jobs, operation {answer['operationid']}")
    follow_batch(context, context.watch(jobs), arguments.filter, order=jobs)


def _is_confirmed(verb: str, plan: Mapping[str, Any]) -> bool:
    """Return whether the person at the terminal confirms the operation on these VMs."""
    names = [str(vm["name"]) for vm in plan.get("virtualmachines") or ()]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    left_out = len(plan.get("failed") or ())
    if left_out:
        print(f"{left_out} virtual machines cannot be processed (--dry-run shows why).", file=sys.stderr)  # noqa: T201
    question = (
        f"{verb.capitalize()} {plan['count']} virtual machines ({', '.join(names[:MOST_NAMES])}{more})? [y/N] "
    )
    print(question, end="", file=sys.stderr, flush=True)  # noqa: T201 - a question
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show_plan(context: CommandContext, plan: Mapping[str, Any], arguments: Arguments) -> None:
    rows = [
        *({**vm, "result": "would be done"} for vm in plan.get("virtualmachines") or ()),
        *(
            {"id": vm["virtualmachineid"], "name": vm["name"], "result": vm["errortext"]}
            for vm in plan.get("failed") or ()
        ),
    ]
    context.screen.show({"count": plan["count"], "virtualmachine": rows}, arguments.filter)
