"""Bulkmonkey's own commands: those that are no commands of the API."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any

from bulkdeploy.cli.api_commands import follow_batch, follow_job
from bulkdeploy.cli.balance import balance
from bulkdeploy.cli.batch_create import batch_create
from bulkdeploy.cli.capacity import capacity
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.concealment import HIDDEN, prompt_secret
from bulkdeploy.cli.confd import NAMES as CONFD_QUERIES
from bulkdeploy.cli.confd import answered
from bulkdeploy.cli.connection.entities import rows_of
from bulkdeploy.cli.connection.profiles import DEFAULT_PROFILE, SETTINGS, Kind
from bulkdeploy.cli.deployments.explain import UNKNOWN_ID, explain_deployment, explain_job, find_deployment
from bulkdeploy.cli.deployments.explain_report import show_deployment, show_job
from bulkdeploy.cli.deployments.jobs import JOB_PAGE
from bulkdeploy.cli.deployments.watching import Budget, DeploymentWatch
from bulkdeploy.cli.explain_hosts import requested_hosts, show_hosts
from bulkdeploy.cli.failures import ApiRefused, UsageError
from bulkdeploy.cli.plan_difference import difference

SHELLS = ("bash", "zsh", "fish")
FILTER = "filter="


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """One command: how it is called, what it does."""

    name: str
    usage: str
    description: str
    run: Callable[[CommandContext, Sequence[str]], None]
    examples: tuple[str, ...] = ()


def _set(context: CommandContext, words: Sequence[str]) -> None:
    config = context.workspace.config(context.options)
    if not words:
        context.screen.show({"setting": _all_settings(context)})
        return
    name = words[0].lower()
    if name not in SETTINGS:
        raise UsageError(f"there is no setting {words[0]!r}", hint=f"Settings: {', '.join(SETTINGS)}")
    if len(words) == 1 and SETTINGS[name].kind is Kind.SECRET:
        value = prompt_secret(name)
    elif len(words) == 1:
        raise UsageError(f"set {name} to what?", hint=f"{name}: {SETTINGS[name].description}")
    else:
        value = " ".join(words[1:])
    config.set(name, value, context.options.profile or config.current)
    context.screen.say(f"{name} is {HIDDEN if SETTINGS[name].kind is Kind.SECRET else value}, in {config.path}")


def _all_settings(context: CommandContext) -> list[dict[str, Any]]:
    config = context.workspace.config(context.options)
    name = context.workspace.profile_name(context.options)
    section = config.profile(name)
    rows = []
    for setting in SETTINGS.values():
        values = section if setting.of_profile else config.shared
        value = name if setting.name == "profile" else values.get(setting.name) or setting.default
        shown = HIDDEN if setting.kind is Kind.SECRET and value else value
        rows.append({"name": setting.name, "value": shown, "description": setting.description})
    return rows


def _profile(context: CommandContext, words: Sequence[str]) -> None:
    config = context.workspace.config(context.options)
    if words:
        config.profile(words[0])
        config.set("profile", words[0], words[0])
        context.screen.say(f"profile is {words[0]}")
        return
    names = sorted({*config.profiles, DEFAULT_PROFILE, config.current})
    rows = [
        {
            "name": name,
            "url": config.profiles.get(name, {}).get("url") or SETTINGS["url"].default,
            "state": "in use" if name == config.current else "",
        }
        for name in names
    ]
    context.screen.show({"count": len(rows), "profile": rows}, ("name", "url", "state"))


def _sync(context: CommandContext, words: Sequence[str]) -> None:
    _no_more(words, "sync")
    catalogue = context.workspace.sync(context.connection)
    context.screen.say(f"{len(catalogue)} APIs of {context.connection.url} are known now")


def _follow(context: CommandContext, words: Sequence[str]) -> None:
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


def _explain(context: CommandContext, words: Sequence[str]) -> None:
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


def _confd(context: CommandContext, words: Sequence[str]) -> None:
    section = context.workspace.config(context.options).profile(context.workspace.profile_name(context.options))
    found = answered(words, section.get("confdservers", ""), section.get("confdkeyfile", ""))
    context.screen.show({"confd": [{"query": " ".join(words), "answer": found}]})


def _console(context: CommandContext, words: Sequence[str]) -> None:
    from bulkdeploy.cli.console import console  # noqa: PLC0415 - loads what no other command needs

    console(context, words)


def _completion(context: CommandContext, words: Sequence[str]) -> None:
    del context
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError("for which shell?", hint=f"bulkmonkey completion {' or '.join(SHELLS)}")
    script = resources.files("bulkdeploy.cli") / "completions" / f"bulkmonkey.{words[0]}"
    print(script.read_text(encoding="utf-8"), end="")  # noqa: T201 - the script is the answer


def _names_and_filter(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    filters = [word.removeprefix(FILTER) for word in words if word.startswith(FILTER)]
    names = [word for word in words if not word.startswith(FILTER)]
    wrong = [name for name in names if "=" in name]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not expected here")
    fields = tuple(field.strip() for text in filters for field in text.split(",") if field.strip())
    return [part for name in names for part in name.split(",") if part], fields


def _no_more(words: Sequence[str], command: str) -> None:
    if words:
        raise UsageError(f"{words[0]!r} is not expected after {command}")


OWN_COMMANDS: dict[str, OwnCommand] = {
    command.name: command
    for command in (
        OwnCommand(
            "set",
            "set [NAME [VALUE]]",
            "Shows or changes settings; keys and passwords are asked for if VALUE is left out",
            _set,
            ("set profile lab", "set url https://lab.example.org/client/api", "set secretkey", "set output csv"),
        ),
        OwnCommand("profile", "profile [NAME]", "Lists profiles, or changes to one", _profile, ("profile lab",)),
        OwnCommand("sync", "sync", "Asks the server which APIs it has, for help and completion", _sync),
        OwnCommand(
            "batch-create",
            "batch-create FILE [NAME=VALUE ...]",
            "Creates the unlike VMs of a JSON or YAML file, Ganeti's too; -: standard input",
            batch_create,
            (
                "batch-create vms.yaml zone=small --dry-run",
                "batch-create - zone=small serviceoffering=Custom --partial --no-wait",
            ),
        ),
        OwnCommand(
            "follow",
            "follow [DEPLOYMENT | JOB ...]",
            "Shows a deployment or jobs until they are finished; alone: the newest deployment in progress",
            _follow,
            ("follow", "follow 9d3c0f62-9b6c-4b0e-8a53-b5a4a9a3f3a1"),
        ),
        OwnCommand(
            "explain",
            "explain DEPLOYMENT | JOB [host=NAME]",
            "Says where VMs went and why, or why they failed and what would help; or why not on a host",
            _explain,
            (
                "explain 9d3c0f62-9b6c-4b0e-8a53-b5a4a9a3f3a1",
                "explain JOB -o json",
                "explain DEPLOYMENT host=kvm-17",
            ),
        ),
        OwnCommand(
            "confd",
            f"confd {'|'.join(CONFD_QUERIES)} [QUERY]",
            "Asks confd servers, of bulkdeploy or of Ganeti, where things are; the newest answer counts",
            _confd,
            ("confd node-of-address 10.1.0.7", "confd node-role kvm-17", "confd configuration /cluster/serial_no"),
        ),
        OwnCommand(
            "balance",
            "balance zone=NAME | pod=NAME | cluster=NAME [maxmoves=N] [mingain=X] [yes]",
            "Shows the moves that would even out the use of hosts, and has them made once confirmed",
            balance,
            ("balance zone=z1", "balance cluster=c-kvm-1 maxmoves=20 yes", "balance zone=z1 dryrun=true -o csv"),
        ),
        OwnCommand(
            "console",
            "console VM",
            "Shows the serial console of a running VM and sends what is typed; Ctrl-] ends it",
            _console,
            ("console web-1", "console 6f1c2a34-0a0f-4f5e-9d59-4f0f9f1b7c11"),
        ),
        OwnCommand(
            "capacity",
            "capacity zone=NAME serviceoffering=NAME template=NAME [tiered=true] [n1=true] [NAME=VALUE ...]",
            "Says how many more such VMs fit, on which hosts, and what ends it",
            capacity,
            (
                "capacity zone=z1 serviceoffering=Small template='Debian 12'",
                "capacity zone=z1 serviceoffering=Small template='Debian 12' n1=true --machine-readable",
                "capacity zone=z1 serviceoffering=Custom template='Debian 12' tiered=true details[0].memory=32768",
            ),
        ),
        OwnCommand(
            "difference",
            "difference FIRST.json SECOND.json",
            "Says what the second of two plans would change: dry runs that were saved with -o json",
            difference,
            ("difference monday.json today.json", "difference monday.json today.json -o json"),
        ),
        OwnCommand(
            "completion",
            f"completion {'|'.join(SHELLS)}",
            "Prints the completion script of a shell",
            _completion,
            ('eval "$(bulkmonkey completion bash)"', "bulkmonkey completion fish | source"),
        ),
    )
}
"""All of them by name. ``help``, ``exit`` and the like belong to the runner and the shell."""
