"""``difference``: compares two plans of dry runs, saved as JSON, host by host."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.failures import UsageError
from bulkdeploy.cli.output.formats import printable

PLANS = ("plan", "balanceplan")
"""Under which name an answer has its plan."""


def difference(context: CommandContext, words: Sequence[str]) -> None:
    """Compare two plans: print the hosts that get more or fewer VMs, and the VMs that move elsewhere.

    Raises:
        UsageError: a file is missing, or is not the response of a dry run.
    """
    if len(words) != len(("first", "second")):
        raise UsageError(
            "two files with plans must be named",
            hint="bulkmonkey difference FIRST.json SECOND.json: dry runs saved with -o json",
        )
    first, second = map(_plan_in, words)
    before, after = _vms_by_host(first), _vms_by_host(second)
    hosts = [
        {"hostname": host, "first": before[host], "second": after[host], "change": after[host] - before[host]}
        for host in sorted({*before, *after})
        if before[host] != after[host]
    ]
    was, will = _destinations(first), _destinations(second)
    vms = [
        {"virtualmachinename": vm, "first": was.get(vm), "second": will.get(vm)}
        for vm in sorted({*was, *will})
        if was.get(vm) != will.get(vm)
    ]
    if context.screen.format == "table":
        context.screen.render(*_parts(hosts, vms))
    else:
        context.screen.show({"host": hosts, "virtualmachine": vms}, ())


def _plan_in(path: str) -> Mapping[str, Any]:
    try:
        answer = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    plans = [answer[name] for name in PLANS if name in answer] if isinstance(answer, dict) else []
    if not plans or not isinstance(plans[0], dict):
        raise UsageError(f"{path} has no plan", hint="Save one: bulkmonkey ... dryrun=true -o json > FILE")
    found: dict[str, Any] = plans[0]
    return found


def _vms_by_host(plan: Mapping[str, Any]) -> Counter[str]:
    """Return the number of VMs that a plan adds to each host, minus the VMs that leave the host."""
    moves = [row for row in plan.get("move") or () if row.get("hostname")]
    vms: Counter[str] = Counter({row["hostname"]: int(row["count"]) for row in plan.get("placedhosts") or ()})
    if "placedhosts" not in plan:
        vms.update(row["hostname"] for row in moves)
    vms.subtract(row["fromhostname"] for row in moves if row.get("fromhostname"))
    return vms


def _destinations(plan: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the destination of each VM that a plan starts or moves."""
    return {row["virtualmachinename"]: row.get("hostname") for row in plan.get("move") or ()}


def _parts(hosts: Sequence[Mapping[str, Any]], vms: Sequence[Mapping[str, Any]]) -> list[Table | Text]:
    if not hosts and not vms:
        return [Text("The second plan would change nothing.", "green")]
    by_host = Table("", "Host", "First", "Second", box=box.SIMPLE, title="Change by host", title_justify="left")
    for row in hosts:
        by_host.add_row(f"{row['change']:+}", printable(row["hostname"]), f"{row['first']:+}", f"{row['second']:+}")
    by_vm = Table("VM", "First", "Second", box=box.SIMPLE, title="Virtual machines", title_justify="left")
    for row in vms:
        by_vm.add_row(
            printable(row["virtualmachinename"]), *(printable(row[at] or "-") for at in ("first", "second"))
        )
    return [*([by_host] if hosts else []), *([by_vm] if vms else [])]
