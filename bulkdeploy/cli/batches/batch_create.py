"""``batch-create``: deploys different VMs from a file by one call, waits, and prints the host of each VM."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from bulkdeploy.cli.api_commands import answer_to, follow_batch
from bulkdeploy.cli.arguments import Arguments, check_values, declared_parameter
from bulkdeploy.cli.batches.batch_files import LIST, BatchFile, read_batch
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.catalogue import Api
from bulkdeploy.cli.connection.naming import ID, resolve_names
from bulkdeploy.cli.deployments.jobs import failure_of
from bulkdeploy.cli.deployments.plan_report import plan_parts
from bulkdeploy.cli.failures import ApiRefused, JobsFailed, UsageError
from bulkdeploy.cli.output.formats import printable

COMMAND = "bulkCreateVirtualMachines"
OF_AN_ENTRY = "deployVirtualMachine"
BESIDE = frozenset({"count", "nameprefix"})
"""Parameters of an entry that a single deployment does not have."""

PLACES = ("name", "hostname", "index", "virtualmachineid", "jobid", "hostid", "clusterid", "podid", "pools")
LEFT_OUT = ("index", "name", "errorcode", "errortext")
MOST_NAMED = 5
WRONG_PARAMETER = (430, 431)
"""Codes of refusals that name what is wrong with an entry."""


def batch_create(context: CommandContext, words: Sequence[str]) -> None:
    """Deploy the VMs of a batch file, which the first word names. The other words are parameters of all VMs.

    Raises:
        UsageError: the file is not valid. The error names the entry and field. Nothing was sent.
        ApiRefused: the API rejected the call. Nothing was created.
        JobsFailed, TimedOut: some VMs did not start, or the time limit passed.
    """
    if not words or "=" in words[0]:
        raise UsageError(
            "no batch file is named", hint="bulkmonkey batch-create FILE [NAME=VALUE ...]; -: standard input"
        )
    api, of_entry = context.catalogue.get(COMMAND), context.catalogue.get(OF_AN_ENTRY)
    if api is None or of_entry is None:
        raise UsageError(f"this API has no {COMMAND}")
    batch = read_batch(words[0])
    for name, numbers in batch.remarks.items():
        named = ", ".join(map(str, numbers[:MOST_NAMED])) + (", ..." if len(numbers) > MOST_NAMED else "")
        context.screen.warn(f"{name} has no counterpart in bulkdeploy, and is left out (entry {named})")
    _Names(context, api, of_entry, batch, words[1:]).fill()
    parameters = {name: _text(value) for name, value in batch.shared.items()}
    parameters[LIST] = json.dumps(batch.entries)
    check_values(api, parameters)
    try:
        answer = answer_to(context, api, Arguments(parameters))
    except ApiRefused as error:
        if error.errorcode in WRONG_PARAMETER and f"{LIST}[" in error.errortext:
            raise UsageError(error.errortext, hint=f"Nothing was created. See {words[0]}") from error
        raise
    _show(context, answer, planned=parameters.get("dryrun") == "true")


class _Names:
    """The completion of a file's entries: adds shared values, and replaces names by ids.

    Each name is looked up once.
    """

    def __init__(
        self, context: CommandContext, api: Api, of_entry: Api, batch: BatchFile, words: Sequence[str]
    ) -> None:
        self._context, self._api, self._of_entry, self._batch = context, api, of_entry, batch
        self._known: dict[tuple[str, str], str] = {}
        self._defaults: dict[str, Any] = {}
        self._words = words

    def fill(self) -> None:
        """Complete all entries in place: add the common parameters, and replace names by ids."""
        given = {**self._batch.shared, **dict(_pair(word) for word in self._words)}
        options = self._context.options
        if options.dry_run:
            given["dryrun"] = True
        if options.partial:
            given["partial"] = True
        self._batch.shared = {}
        for name, value in given.items():
            declared = declared_parameter(self._api, name)
            if declared is not None and declared.name != LIST:
                self._batch.shared[declared.name] = _text(value)
            elif self._entry_name(name) is None:
                raise UsageError(f"neither {COMMAND} nor its entries have a parameter {name!r}")
            else:
                self._defaults[name] = value
        resolve_names(
            self._context.catalogue,
            self._api,
            self._batch.shared,
            self._context.call,
            self._context.screen.print_message,
        )
        self._batch.entries = [self._filled(number, entry) for number, entry in enumerate(self._batch.entries)]

    def _entry_name(self, name: str) -> str | None:
        if name.lower() in BESIDE:
            return name.lower()
        declared = declared_parameter(self._of_entry, name.partition("[")[0])
        return None if declared is None else declared.name + name[len(name.partition("[")[0]) :]

    def _filled(self, number: int, entry: dict[str, Any]) -> dict[str, Any]:
        disks = entry.pop("datadisks", None)
        filled: dict[str, Any] = {}
        for name, value in (*self._defaults.items(), *entry.items()):
            sent_as = self._entry_name(name)
            if sent_as is None:
                raise UsageError(f"{LIST}[{number}].{name}: a VM has no parameter with this name")
            filled[sent_as] = self._resolved(number, sent_as, value)
        if disks:
            offering = filled.pop("diskofferingid", None)
            if offering is None:
                raise UsageError(
                    f"{LIST}[{number}].disks[1] needs a custom disk offering",
                    hint="Add diskoffering=NAME to the command",
                )
            filled["datadiskofferinglist"] = [{"diskofferingid": offering, "size": size} for size in disks]
        return filled

    def _resolved(self, number: int, name: str, value: Any) -> Any:
        """Return a value with names replaced by ids, also in nested maps."""
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [
                {
                    inner: self._resolved(number, "networkids", each) if inner == "networkid" else each
                    for inner, each in row.items()
                }
                for row in value
            ]
        parameter = self._of_entry.value(name)
        if parameter is None or not parameter.names_entities or isinstance(value, dict):
            return value
        text = _text(value)
        if all(ID.fullmatch(part) for part in text.split(",") if part):
            return text
        if (name, text) not in self._known:
            scope = {
                key: id_ for key, id_ in self._batch.shared.items() if self._of_entry.parameter(key) is not None
            }
            wanted = {**scope, name: text}
            try:
                resolve_names(
                    self._context.catalogue,
                    self._of_entry,
                    wanted,
                    self._context.call,
                    self._context.screen.print_message,
                )
            except UsageError as error:
                raise UsageError(f"{LIST}[{number}].{error.message}", hint=error.hint) from error
            self._known[name, text] = wanted[name]
        return self._known[name, text]


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise UsageError(f"{word!r} does not have the form name=value")
    return name, value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)


def _show(context: CommandContext, answer: Mapping[str, Any], *, planned: bool) -> None:
    """Print the plan, or wait for the jobs and print the host of each VM and the entries that were left out."""
    screen = context.screen
    table = screen.format == "table"
    if planned:
        plan = answer.get("plan") or {}
        if table:
            screen.render(*plan_parts(plan), *_places(plan))
        else:
            screen.show(
                {"count": plan.get("fits"), "placement": _rows(plan)} if screen.format != "json" else answer, ()
            )
        return
    jobs = answer.get("asyncjobs") or []
    watch = context.watch([str(job["jobid"]) for job in jobs], str(jobs[0].get("deploymentid") or ""))
    if not context.preferences.asyncblock:
        if table:
            screen.render(*_places(answer))
        else:
            screen.show(answer, ())
        screen.print_message(f"{len(jobs)} jobs go on. Follow them: {context.program} follow {watch.name}")
        return
    screen.print_message(f"{len(jobs)} jobs, deployment {watch.name}")
    failed: JobsFailed | None = None
    try:
        follow_batch(context, watch, (), order=[str(job["jobid"]) for job in jobs])
    except JobsFailed as error:
        failed = error
    (screen.render if table else screen.report)(*_places(answer, watch.jobs))
    if failed is not None:
        raise failed


def _rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{name: row.get(name) for name in PLACES if name in row} for row in answer.get("placements") or ()]


def _host_after(job: Mapping[str, Any]) -> str | None:
    """Return the name of the host of a finished job's VM, or None if the VM has no host."""
    vm = (job.get("jobresult") or {}).get("virtualmachine") or {}
    return vm.get("hostname") if failure_of(job) is None else None


def _places(answer: Mapping[str, Any], ended: Sequence[Mapping[str, Any]] = ()) -> list[Table]:
    """Return tables with the host of each VM and with the VMs that were left out.

    The host of a VM whose job has ended is taken from the result of the job.
    """
    hosts = {str(job.get("jobid")): _host_after(job) for job in ended}
    placed = Table("VM", "Host", box=box.SIMPLE, title="Where the VMs are", title_justify="left")
    for row in answer.get("placements") or ():
        name = row.get("name") or f"{LIST}[{row.get('index')}]"
        host = hosts.get(str(row.get("jobid")), row.get("hostname"))
        placed.add_row(printable(str(name)), printable(str(host or "-")))
    if not answer.get("failed"):
        return [placed]
    failed = Table("Entry", "VM", "Code", "Why", box=box.SIMPLE, title="Left out", title_justify="left")
    alike = Counter(tuple(row.get(name) for name in LEFT_OUT) for row in answer["failed"])
    for (number, name, code, why), vms in alike.items():
        who = str(name or "") if vms == 1 else f"{vms} VMs"
        failed.add_row(str(number), printable(who), str(code), printable(str(why)))
    return [placed, failed]
