"""``capacity``: the number of further VMs that fit and the limiting reason.

Programs can read the same output as that of Ganeti's hspace.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.arguments import check_values, read_arguments
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.naming import resolve_names
from bulkdeploy.cli.deployments.batch_report import exclusion_table
from bulkdeploy.cli.failures import UsageError
from bulkdeploy.cli.output.formats import printable

API = "calculateCapacity"
MOST_SHOWN = 50
IN_ROWS = ("csv", "column")
FAILURES = {"memory": "FAILMEM", "cpu": "FAILCPU", "storage": "FAILDISK", "n1": "FAILN1"}
"""What hspace calls our reasons; others keep their own names after FAIL."""

MIB = 1 << 20


def capacity(context: CommandContext, words: Sequence[str]) -> None:
    """Print the number of further VMs that fit into a zone, per host, and the limiting reason.

    Raises:
        UsageError: the API does not calculate capacity, or ``words`` contain an unknown or wrong parameter.
        CommandFailed: the call failed.
    """
    api = context.catalogue.get(API)
    if api is None:
        raise UsageError("this API does not calculate capacity")
    arguments = read_arguments(api, list(words), send_unknown=context.options.send_unknown)
    parameters = arguments.parameters
    check_values(api, parameters)
    resolve_names(context.catalogue, api, parameters, context.call, context.screen.print_message)
    if context.options.machine_readable:
        for line in _lines(context, parameters):
            print(line)  # noqa: T201 - for programs: nothing may be laid out
        return
    found = context.call(API, parameters)["remainingcapacity"]
    screen = context.screen
    if screen.format in IN_ROWS:
        screen.show({"host": found.get("hosts") or []}, arguments.filter)
    elif screen.format != "table":
        screen.show({"remainingcapacity": found}, arguments.filter)
    else:
        screen.render(*_parts(found))


def _parts(found: Mapping[str, Any]) -> list[RenderableType]:
    """Return the report as text and tables for the terminal."""
    verdict = Text(f"{found['count']} more VMs fit.", "green" if found["count"] else "red")
    if found.get("text"):
        named = found.get("losthostname")
        what = f"host {named}: " if named else ""
        verdict.append(f" Then {what}{found['text']}.", "default")
        verdict.append(f" {str(found['remedy'])[:1].upper()}{str(found['remedy'])[1:]}.", "dim")
    parts: list[RenderableType] = [verdict]
    sizes = Table("VMs", "Cores", "MHz", "MiB", "Disk, GiB", box=box.SIMPLE)
    for row in found["sizes"]:
        numbers = (row["count"], row["cpunumber"], row["cpuspeed"], row["memory"])
        sizes.add_row(*map(str, numbers), f"{row['disksize'] / 1024**3:.0f}")
    if found["sizes"]:
        parts.append(sizes)
    before, after = found["before"][0], found["after"][0]
    use = Table("", "Memory, MiB", "CPU, MHz", "Storage, GiB", "VMs", box=box.SIMPLE)
    for name, usage in (("now", before), ("then", after)):
        storage = f"{usage['storageused'] / 1024**3:.0f} of {usage['storagetotal'] / 1024**3:.0f}"
        memory, cpu = (f"{usage[f'{what}used']} of {usage[f'{what}total']}" for what in ("memory", "cpu"))
        use.add_row(name, memory, cpu, storage, str(usage["virtualmachines"]))
    parts.append(use)
    hosts = Table("", "Host", "Cluster", box=box.SIMPLE)
    for row in found["hosts"][:MOST_SHOWN]:
        hosts.add_row(f"+{row['count']}", printable(row["hostname"]), printable(row["clustername"]))
    if len(found["hosts"]) > MOST_SHOWN:
        hosts.add_row("...", f"{len(found['hosts']) - MOST_SHOWN} more hosts", "")
    if found["hosts"]:
        parts.append(hosts)
    if found.get("excluded"):
        parts.append(exclusion_table(found["excluded"]))
    return parts


def _lines(context: CommandContext, parameters: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of hspace's output: for equal VMs, and with ``tiered`` also for VMs of decreasing sizes."""
    alike = {name: value for name, value in parameters.items() if name != "tiered"}
    standard = context.call(API, alike)["remainingcapacity"]
    keys = _keys_of(standard)
    if parameters.get("tiered", "").lower() == "true":
        tiered = context.call(API, parameters)["remainingcapacity"]
        specs = " ".join(
            f"{row['memory']},{row['disksize'] // MIB},{row['cpunumber']},1={row['count']}"
            for row in tiered["sizes"]
        )
        keys |= {**_usage("TRL", tiered["after"][0]), "TSPEC": f"'{specs}'"}
    yield from (f"HTS_{name}={value}" for name, value in {**keys, "OK": 1}.items())


def _keys_of(found: Mapping[str, Any]) -> dict[str, Any]:
    before, after = found["before"][0], found["after"][0]
    size = found["sizes"][0] if found["sizes"] else {}
    reason = str(found.get("reason", ""))
    return {
        "SPEC_MEM": size.get("memory", 0),
        "SPEC_DSK": size.get("disksize", 0) // MIB,
        "SPEC_CPU": size.get("cpunumber", 0),
        "CLUSTER_MEM": before["memorytotal"],
        "CLUSTER_DSK": before["storagetotal"] // MIB,
        "CLUSTER_CPU": before["cores"],
        "CLUSTER_NODES": before["hosts"],
        **_usage("INI", before),
        **_usage("FIN", after),
        "ALLOC_USAGE": f"{before['virtualmachines'] / max(after['virtualmachines'], 1):.8f}",
        "ALLOC_INSTANCES": found["count"],
        "ALLOC_FAIL_REASON": FAILURES.get(reason, f"FAIL{reason.replace('_', '').upper()}"),
    }


def _usage(prefix: str, usage: Mapping[str, int]) -> dict[str, Any]:
    """Return the keys of hspace's output for the resources in use: memory and disks in MiB, CPU in MHz."""
    keys: dict[str, Any] = {"INST_CNT": usage["virtualmachines"]}
    for name, total, used in (
        ("MEM", usage["memorytotal"], usage["memoryused"]),
        ("DSK", usage["storagetotal"] // MIB, usage["storageused"] // MIB),
    ):
        free = max(total - used, 0)
        share = f"{used / max(total, 1):.8f}"
        keys |= {f"{name}_FREE": free, f"{name}_AVAIL": free, f"{name}_RESVD": 0}
        keys |= {f"{name}_INST": used, f"{name}_EFF": share}
    keys |= {"CPU_INST": usage["cpuused"], "CPU_EFF": f"{usage['cpuused'] / max(usage['cputotal'], 1):.8f}"}
    keys["MNODE_MEM_AVAIL"] = usage["memoryfreeonhost"]
    return {f"{prefix}_{name}": value for name, value in keys.items()}
