"""The output of ``explain``: sentences and tables for people; rows or objects for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.deployments.batch_report import exclusion_table, failure_table, number, ordered, place
from bulkdeploy.cli.deployments.summary import cluster_parts, outcome
from bulkdeploy.cli.output.answers import Rows
from bulkdeploy.cli.output.formats import duration, printable
from bulkdeploy.cli.output.screen import Screen
from bulkdeploy.cli.output.tables import table_of

IN_ROWS = ("csv", "column")
VM_COLUMNS = ("name", "id", "result", "podname", "clustername", "hostname", "seconds")


def show_job(screen: Screen, facts: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Print the facts of a job in the selected output format."""
    if screen.format == "table":
        screen.render(*job_parts(facts))
    else:
        screen.show({"job": facts}, fields)


def show_deployment(screen: Screen, facts: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Print the facts of a deployment in the selected output format. csv and column have one row per VM."""
    if screen.format == "table":
        screen.render(*deployment_parts(facts, screen.out.width))
    elif screen.format in IN_ROWS:
        screen.show({"virtualmachine": facts["virtualmachine"]}, fields)
    else:
        screen.show(facts, fields)


def job_parts(facts: Mapping[str, Any]) -> list[RenderableType]:
    """Return the description of a job as text for the terminal."""
    name = str(facts.get("name") or facts.get("id") or "no VM")
    head = Text(f"Job {facts['jobid']}, VM {printable(name)}: ", style="bold")
    if facts["result"] == "in progress":
        return [
            head.append("in progress", style="yellow"),
            Text(f"It was made at {facts.get('created', 'unknown')}."),
        ]
    took = f" after {duration(facts['seconds'])}" if facts.get("seconds") is not None else ""
    if facts["result"] == "failed":
        head.append(f"failed{took}", style="red")
        why = f"Why: {facts['errortext']} (code {facts.get('errorcode', 'unknown')})"
        lines = [Text(printable(why))]
        if facts.get("help"):
            lines.append(Text(f"Remedy: {facts['help']}."))
        return [head, *lines]
    head.append(f"succeeded{took}", style="green")
    where = [f"{kind} {facts[key]}" for kind, key in _PLACES if facts.get(key)]
    lines = [Text(printable(f"Where: {', '.join(where)}")) if where else Text("Where: this user may not see hosts")]
    if facts.get("state"):
        lines.append(Text(printable(f"Its state now: {facts['state']}")))
    if facts.get("why"):
        lines.append(Text(f"Why there: {facts['why']}."))
    return [head, *lines]


_PLACES = (("host", "hostname"), ("cluster", "clustername"), ("pod", "podname"), ("zone", "zonename"))


def deployment_parts(facts: Mapping[str, Any], width: int) -> list[RenderableType]:
    """Return the description of a deployment in sentences and tables, for a terminal of ``width`` columns."""
    about = facts["deployment"]
    total = sum(number(about, name) for name in ("queued", "running", "succeeded", "failed", "cancelled"))
    failed = outcome(number(about, "failed") + number(about, "cancelled"), number(facts, "cancelled"))
    head = Text(f"Deployment {about.get('id', '')}", style="bold")
    head.append(
        f": {about.get('state', '')}, {number(about, 'succeeded')} of {total} jobs succeeded, "
        f"{failed}, skew {facts['skew']}",
        style="default",
    )
    parts: list[RenderableType] = [head]
    if facts["clusters"]:
        parts += [*cluster_parts(facts["clusters"], planned=True), _whys(facts["clusters"])]
    if facts["excluded"]:
        parts.append(exclusion_table(facts["excluded"]))
    if facts["failures"]:
        parts.append(failure_table(facts["failures"]))
    if facts["virtualmachine"]:
        rows = tuple(
            {**row, "seconds": f"{row['seconds']:.0f}"} if row.get("seconds") is not None else row
            for row in facts["virtualmachine"]
        )
        columns = tuple(name for name in VM_COLUMNS if any(row.get(name) for row in rows))
        parts.append(table_of(Rows(rows, columns, single=False), width, chosen=True))
    return parts


def _whys(clusters: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one row per reason and the clusters to which the reason applies."""
    reasons: dict[str, list[str]] = {}
    for cluster in ordered(clusters):
        reasons.setdefault(str(cluster["why"]), []).append(place(cluster, "cluster").plain)
    table = Table(box=box.SIMPLE_HEAD, title="Why", title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("clusters", overflow="fold")
    table.add_column("reason", overflow="fold")
    for reason, names in reasons.items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        table.add_row(printable(shown), reason)
    return table
