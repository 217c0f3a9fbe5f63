"""Bulkmonkey's own commands, which are not commands of the API."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, resources
from typing import Any

from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.concealment import HIDDEN, prompt_secret
from bulkdeploy.cli.confd import NAMES as CONFD_QUERIES
from bulkdeploy.cli.connection.profiles import DEFAULT_PROFILE, SETTINGS, Kind
from bulkdeploy.cli.failures import UsageError

Run = Callable[[CommandContext, Sequence[str]], None]

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command of bulkmonkey itself, with its usage text and its function."""

    name: str
    usage: str
    description: str
    run: Run
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
        raise UsageError(f"the value of setting {name} is missing", hint=f"{name}: {SETTINGS[name].description}")
    else:
        value = " ".join(words[1:])
    config.set(name, value, context.options.profile or config.current)
    context.screen.print_message(
        f"{name} is {HIDDEN if SETTINGS[name].kind is Kind.SECRET else value}, in {config.path}"
    )


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
        context.screen.print_message(f"profile is {words[0]}")
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
    context.screen.print_message(f"{len(catalogue)} APIs of {context.connection.url} are known now")


def _completion(context: CommandContext, words: Sequence[str]) -> None:
    del context
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError("no shell is named", hint=f"bulkmonkey completion {' or '.join(SHELLS)}")
    script = resources.files("bulkdeploy.cli") / "completions" / f"bulkmonkey.{words[0]}"
    print(script.read_text(encoding="utf-8"), end="")  # noqa: T201 - the script is the answer


def _of(module: str, name: str) -> Run:
    """Return a command whose module is imported only when the command runs, not for its help."""

    def run(context: CommandContext, words: Sequence[str]) -> None:
        getattr(import_module(f"bulkdeploy.cli.{module}"), name)(context, words)

    return run


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
        OwnCommand("sync", "sync", "Reads the list of APIs from the server, for help and completion", _sync),
        OwnCommand(
            "batch-create",
            "batch-create FILE [NAME=VALUE ...]",
            "Creates different VMs from a JSON or YAML file, also of Ganeti; -: standard input",
            _of("batches.batch_create", "batch_create"),
            (
                "batch-create vms.yaml zone=small --dry-run",
                "batch-create - zone=small serviceoffering=Custom --partial --no-wait",
            ),
        ),
        OwnCommand(
            "bulk",
            "bulk VERB virtualmachines [NAME=VALUE ...]",
            "Stops, starts, destroys ... many VMs with one call: shows them, asks for confirmation, and waits",
            _of("batches.bulk", "bulk"),
            (
                "bulk stop virtualmachines deployment=9d3c0f62-9b6c-4b0e-8a53-b5a4a9a3f3a1 state=Running",
                "bulk reboot virtualmachines group=web maxparallel=5 maxfailures=1 --yes",
                "bulk destroy virtualmachines zone=z1 keyword=test --dry-run",
            ),
        ),
        OwnCommand(
            "follow",
            "follow [DEPLOYMENT | VM | JOB ...]",
            "Shows a deployment, jobs or a VM's newest job until they end; alone: the newest deployment",
            _of("following_commands", "follow"),
            ("follow", "follow 9d3c0f62-9b6c-4b0e-8a53-b5a4a9a3f3a1"),
        ),
        OwnCommand(
            "explain",
            "explain DEPLOYMENT | JOB | VM [host=NAME]",
            "Shows the hosts of VMs with reasons, failures with remedies, or why a host cannot get them",
            _of("following_commands", "explain"),
            (
                "explain 9d3c0f62-9b6c-4b0e-8a53-b5a4a9a3f3a1",
                "explain JOB -o json",
                "explain web-1",
                "explain DEPLOYMENT host=kvm-17",
            ),
        ),
        OwnCommand(
            "confd",
            f"confd {'|'.join(CONFD_QUERIES)} [QUERY]",
            "Queries confd servers of bulkdeploy or Ganeti, and prints the newest answer",
            _of("confd", "confd"),
            ("confd node-of-address 10.1.0.7", "confd node-role kvm-17", "confd configuration /cluster/serial_no"),
        ),
        OwnCommand(
            "balance",
            "balance zone=NAME | pod=NAME | cluster=NAME [maxmoves=N] [mingain=X] [yes]",
            "Shows the moves that balance the load of hosts, and executes them after confirmation",
            _of("planning.balance", "balance"),
            ("balance zone=z1", "balance cluster=c-kvm-1 maxmoves=20 yes", "balance zone=z1 dryrun=true -o csv"),
        ),
        OwnCommand(
            "console",
            "console VM",
            "Connects the terminal to the serial console of a running VM; Ctrl-] ends the connection",
            _of("console", "console"),
            ("console web-1", "console 6f1c2a34-0a0f-4f5e-9d59-4f0f9f1b7c11"),
        ),
        OwnCommand(
            "capacity",
            "capacity zone=NAME serviceoffering=NAME template=NAME [tiered=true] [n1=true] [NAME=VALUE ...]",
            "Shows how many more VMs of an offering fit, on which hosts, and the limiting reason",
            _of("planning.capacity", "capacity"),
            (
                "capacity zone=z1 serviceoffering=Small template='Debian 12'",
                "capacity zone=z1 serviceoffering=Small template='Debian 12' n1=true --machine-readable",
                "capacity zone=z1 serviceoffering=Custom template='Debian 12' tiered=true details[0].memory=32768",
            ),
        ),
        OwnCommand(
            "difference",
            "difference FIRST.json SECOND.json",
            "Compares two plans of dry runs that were saved with -o json",
            _of("planning.plan_difference", "difference"),
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


BULK, MANY_VMS = "bulk", ("virtualmachines", "vms")
"""The own command whose name APIs begin with, too, and the nouns that tell it from these."""


def own_command(words: Sequence[str]) -> OwnCommand | None:
    """Return bulkmonkey's own command in a line, such as ``bulk stop virtualmachines``.

    Returns None if the line calls an API, such as ``bulk deployvirtualmachine``, or an unknown command.
    """
    if words[0] == BULK and (len(words) < 3 or words[2].lower() not in MANY_VMS):
        return None
    return OWN_COMMANDS.get(words[0])
