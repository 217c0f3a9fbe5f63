"""One measured line of the report, its JSON form, and the table at the end."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

Number = int | float


@dataclass(frozen=True, slots=True)
class Line:
    """What was measured, as medians over repeats.

    Attributes:
        row: the row of the table of targets.
        name: what was measured.
        n: how many VMs, calls or rows one measurement was over.
        median: the middle of all repeats, in ``unit``.
        p95: what 95 of 100 repeats do not pass, in ``unit``; for rates, what 95 of 100 reach.
        unit: ``ms``, ``ms CPU``, ``VMs/s``, ...
        baseline: the median of the work it is compared with, run in the same call, in ``unit``.
        ratio: ``median / baseline``.
        cpu_ms_per_vm: CPU of all processes, in milliseconds per VM.
        target: what is asked, in words; None where a line only informs.
        met: whether it is reached.
    """

    row: int
    name: str
    n: int
    median: float
    p95: float | None = None
    unit: str = "ms"
    baseline: float | None = None
    ratio: float | None = None
    cpu_ms_per_vm: float | None = None
    target: str | None = None
    met: bool | None = None


def line(
    row: int,
    name: str,
    n: int,
    values: Sequence[Number],
    *,
    unit: str = "ms",
    baseline: Number | None = None,
    cpu_ms_per_vm: float | None = None,
    at_most: float | None = None,
    at_least: float | None = None,
    ratio_at_most: float | None = None,
    ratio_at_least: float | None = None,
) -> Line:
    """A line of these repeats; where several bounds are given all must hold."""
    ordered = sorted(map(float, values))
    middle = ordered[len(ordered) // 2] if len(ordered) % 2 else sum(ordered[len(ordered) // 2 - 1 :][:2]) / 2
    far = 0.05 if at_least is not None or ratio_at_least is not None or unit.endswith("/s") else 0.95
    ratio = middle / baseline if baseline else None
    bounds = [
        (f"<= {at_most:g} {unit}", middle <= at_most) if at_most is not None else None,
        (f">= {at_least:g} {unit}", middle >= at_least) if at_least is not None else None,
        (f"<= {ratio_at_most:g} x baseline", ratio is not None and ratio <= ratio_at_most)
        if ratio_at_most is not None
        else None,
        (f">= {ratio_at_least:g} x baseline", ratio is not None and ratio >= ratio_at_least)
        if ratio_at_least is not None
        else None,
    ]
    requested = [bound for bound in bounds if bound is not None]
    return Line(
        row=row,
        name=name,
        n=n,
        median=_rounded(middle),
        p95=_rounded(ordered[round(far * (len(ordered) - 1))]),
        unit=unit,
        baseline=None if baseline is None else _rounded(float(baseline)),
        ratio=None if ratio is None else _rounded(ratio),
        cpu_ms_per_vm=None if cpu_ms_per_vm is None else _rounded(cpu_ms_per_vm),
        target=" and ".join(words for words, _ in requested) or None,
        met=all(held for _, held in requested) if requested else None,
    )


def failed(row: int, why: str) -> Line:
    """The line of a row that could not be measured, or not to its end."""
    return Line(row, f"NOT MEASURED TO ITS END: {why[:200]}", 0, 0.0, unit="", target="to be measured", met=False)


def _rounded(value: float) -> float:
    """Four digits that mean something."""
    return float(f"{value:.4g}")


def as_json(measured: Line) -> str:
    """The line as one JSON object."""
    return json.dumps(asdict(measured))


def show(lines: Sequence[Line]) -> None:
    """The table of all lines."""
    table = Table(title="bulkdeploy's benchmark", title_justify="left")
    table.add_column("row", justify="right")
    table.add_column("what")
    for title in ("n", "median", "p95"):
        table.add_column(title, justify="right")
    table.add_column("unit")
    for title in ("baseline", "ratio", "CPU ms/VM"):
        table.add_column(title, justify="right")
    table.add_column("target")
    table.add_column("met")
    for one in lines:
        numbers = (one.n, one.median, one.p95)
        more = (one.baseline, one.ratio, one.cpu_ms_per_vm)
        met = "" if one.met is None else "[green]yes[/]" if one.met else "[red]no[/]"
        table.add_row(
            str(one.row), one.name, *map(_cell, numbers), one.unit, *map(_cell, more), one.target or "", met
        )
    Console(width=190).print(table)


def _cell(value: Number | None) -> str:
    return "" if value is None else f"{value:g}"
