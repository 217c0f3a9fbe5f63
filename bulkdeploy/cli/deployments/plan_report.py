"""The plan of a dry run: new VMs per host and cluster, moves, and the reasons why hosts get no VMs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.deployments.batch_report import exclusion_table, host_table, number, skew_of
from bulkdeploy.cli.deployments.summary import cluster_parts
from bulkdeploy.cli.output.formats import printable
from bulkdeploy.cli.output.screen import Screen

MOST_HOSTS = 50
IN_ROWS = ("csv", "column")
MOVE_COLUMNS = ("virtualmachinename", "fromhostname", "hostname", "errortext", "virtualmachineid", "hostid")
COLUMNS = ("podname", "clustername", "before", "added", "after", "capacity", "podid", "clusterid")


def is_plan(answer: Mapping[str, Any]) -> bool:
    """Return whether a response is the plan of a dry run."""
    plan = answer.get("plan")
    return isinstance(plan, Mapping) and "fits" in plan


def show_plan(screen: Screen, answer: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Print a plan: as tables on a terminal, one row per cluster or move as csv and column, otherwise unchanged."""
    plan = answer["plan"]
    if screen.format == "table":
        screen.render(*plan_parts(plan))
    elif screen.format in IN_ROWS and "move" in plan:
        screen.show({"move": plan["move"]}, fields or MOVE_COLUMNS)
    elif screen.format in IN_ROWS:
        screen.show({"cluster": plan.get("clusters") or []}, fields or COLUMNS)
    else:
        screen.show(answer, fields)


def _placed(hosts: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of the planned VMs by host."""
    table = Table("", "Host", "Cluster", box=box.SIMPLE, title="New VMs by host", title_justify="left")
    for row in hosts[:MOST_HOSTS]:
        table.add_row(
            f"+{number(row, 'count')}", printable(str(row.get("hostname"))), printable(str(row.get("clustername")))
        )
    if len(hosts) > MOST_HOSTS:
        table.add_row("...", f"{len(hosts) - MOST_HOSTS} more hosts", "")
    return table


def _move_parts(plan: Mapping[str, Any], count: int, fits: int) -> list[RenderableType]:
    """Return the report of a plan of starts and moves: each VM, then each host that loses or gets VMs."""
    moves = plan["move"]
    if not count:
        return [Text("No virtual machine would start or move.", "green")]
    table = Table("VM", "From", "To", box=box.SIMPLE, title="Virtual machines", title_justify="left")
    for row in moves[:MOST_HOSTS]:
        words = (row.get(name) or "" for name in ("virtualmachinename", "fromhostname"))
        to = Text(row.get("errortext") or "no host", "red") if not row.get("hostname") else row["hostname"]
        table.add_row(*(printable(str(word)) for word in words), to)
    if len(moves) > MOST_HOSTS:
        table.add_row("...", f"{len(moves) - MOST_HOSTS} more", "")
    lost = Counter(row["fromhostname"] for row in moves if row.get("fromhostname") and row.get("hostname"))
    changes = Table("", "Host", box=box.SIMPLE, title="Change by host", title_justify="left")
    for host, number_of in lost.most_common(MOST_HOSTS):
        changes.add_row(f"-{number_of}", printable(str(host)))
    for row in plan.get("placedhosts", [])[:MOST_HOSTS]:
        changes.add_row(f"+{number(row, 'count')}", printable(str(row.get("hostname"))))
    verdict = (
        (f"All {count} find a host.", "green") if fits >= count else (f"{fits} of {count} find a host.", "red")
    )
    parts: list[RenderableType] = [Text(*verdict).append(" Nothing was done.", "dim"), table, changes]
    if plan.get("index"):
        parts.append(Text(f"To apply exactly this plan, use planindex={plan['index']} instead of dryrun.", "dim"))
    return parts


def plan_parts(plan: Mapping[str, Any]) -> list[RenderableType]:
    """Return the report of a plan as text and tables for the terminal."""
    count, fits = number(plan, "count"), number(plan, "fits")
    if "move" in plan:
        return _move_parts(plan, count, fits)
    clusters, excluded = plan.get("clusters") or [], plan.get("excluded") or []
    verdict = Text()
    fitting = (f"All {count} VMs fit.", "green") if fits >= count else (f"Only {fits} of {count} VMs fit.", "red")
    verdict.append(*fitting)
    verdict.append(f" Skew {number(plan, 'skew') if 'skew' in plan else skew_of(clusters)}.")
    if "capacity" in plan:
        verdict.append(f" There is room for {number(plan, 'capacity')} such VMs in all.")
    if plan.get("planner"):
        verdict.append(f" Placed by {plan['planner']}.")
    parts: list[RenderableType] = [verdict.append(" Nothing was deployed.", "dim")]
    if clusters:
        parts += cluster_parts(clusters, planned=True)
    if plan.get("placedhosts"):
        parts.append(_placed(plan["placedhosts"]))
    if plan.get("index"):
        parts.append(Text(f"To apply exactly this plan, use planindex={plan['index']} instead of dryrun.", "dim"))
    if excluded:
        parts.append(exclusion_table(excluded))
    if plan.get("hosts"):
        parts.append(host_table(plan["hosts"]))
    return parts
