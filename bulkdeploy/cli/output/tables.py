"""Coloured tables for a terminal, which are never wider than the terminal.

Without ``filter=``, the most important columns that fit are shown. A line names the columns that are left out.
"""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.output.answers import Rows
from bulkdeploy.cli.output.formats import cell, printable

FIRST_COLUMNS = (
    "name", "displayname", "id", "jobid", "state", "status", "allocationstate", "jobstatus", "type", "zonename",
    "podname", "clustername", "hostname", "account", "domain", "asked", "queued", "running", "succeeded", "failed",
    "ipaddress", "serviceofferingname", "templatename", "hypervisor", "cpunumber", "cpuspeed", "memory", "value",
    "displaytext", "jobinstanceid", "created", "completed", "description",
)  # fmt: skip
"""The order in which columns earn their place; all others follow by name."""

GOOD = frozenset({"running", "up", "enabled", "ready", "completed", "true", "allocated", "implemented"})
BAD = frozenset({"error", "down", "disabled", "alert", "failed", "disconnected"})
UNDER_WAY = frozenset({"starting", "stopping", "migrating", "inprogress", "expunging", "connecting"})
WIDEST_CELL = 60
NARROWEST_CELL = 12
FRAME = 3  # characters that a column uses in addition to its content


def table_of(rows: Rows, width: int, *, chosen: bool = False) -> RenderableType:
    """Return the rows as a table that is at most ``width`` columns wide.

    With ``chosen``, all columns are shown, however narrow they become. Otherwise columns that do not fit are left
    out.
    """
    if not rows.rows:
        return Text("nothing found", style="dim")
    if rows.single:
        return _fields(rows)
    columns = rows.columns if chosen else _fitting(rows, width)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold", ratio=None, justify="right" if _numeric(rows, name) else "left")
    for row in rows.rows:
        table.add_row(*(_styled(cell(row.get(name))) for name in columns))
    left_out = [name for name in rows.columns if name not in columns]
    if not left_out:
        return table
    more = ", ".join(left_out[:6]) + (", ..." if len(left_out) > 6 else "")
    note = f"{len(left_out)} more columns: {more} (pick with filter=, or -o json)"
    return Group(table, Text(note, style="dim"))


def _fields(rows: Rows) -> Table:
    row = rows.rows[0]
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name in sorted((name for name in rows.columns if name in row), key=_rank):
        table.add_row(name, _styled(cell(row[name])))
    return table


def _rank(name: str) -> tuple[int, str]:
    return (FIRST_COLUMNS.index(name) if name in FIRST_COLUMNS else len(FIRST_COLUMNS), name)


def _fitting(rows: Rows, width: int) -> list[str]:
    """Return the columns that fit next to each other, the most important first. Long cells are wrapped."""
    left, columns = width, list[str]()
    for name in sorted(rows.columns, key=_rank):
        if not any(row.get(name) not in (None, "", [], {}) for row in rows.rows):
            continue
        wide = max(len(name), min(max(len(cell(row.get(name))) for row in rows.rows), WIDEST_CELL))
        if wide + FRAME > left and columns:
            if left < NARROWEST_CELL:
                break
            continue
        columns.append(name)
        left -= wide + FRAME
    return columns


def _numeric(rows: Rows, name: str) -> bool:
    values: Sequence[object] = [row[name] for row in rows.rows if row.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _styled(text: str) -> Text:
    word = text.lower()
    style = "green" if word in GOOD else "red" if word in BAD else "yellow" if word in UNDER_WAY else ""
    return Text(printable(text), style=style)
