"""Measure everything that has a target: ``make bench``, or ``ROW=4 make bench`` for one row.

One JSON object per line on standard output, progress on standard error, a table at the end. Each row works on
a fresh copy of a generated zone and ends with an audit, which must be clean.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module

from benchmarks.ground import Ground, ground, say
from benchmarks.report import Line, as_json, show

ROWS = {
    1: "row_01_plan",
    3: "row_03_claim",
    4: "row_04_bulk_call",
    5: "row_05_drain",
    6: "row_06_latency",
    7: "row_07_lists",
    8: "row_08_polling",
    9: "row_09_demo",
    10: "row_10_scale_out",
}
"""Rows 1 and 2 share a module: both are pure planning."""


def main() -> None:
    """Run the rows asked for."""
    asked = os.environ.get("ROW")
    numbers = [1 if asked == "2" else int(asked)] if asked else list(ROWS)
    lines: list[Line] = []
    with ground() as shared:
        for number in numbers:
            began = time.monotonic()
            run: Callable[[Ground], Iterator[Line]] = import_module(f"benchmarks.{ROWS[number]}").run
            for one in run(shared):
                lines.append(one)
                print(as_json(one), flush=True)
            say(f"row {number} took {time.monotonic() - began:.0f} s")
    show(lines)
    if any(one.met is False for one in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
