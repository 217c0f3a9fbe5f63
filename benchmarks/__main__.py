"""Measure everything that has a target: ``make bench``, or ``ROW=4 make bench`` for one row.

One JSON object per line on standard output, progress on standard error, a table at the end. Each row works on
a fresh copy of a generated zone and ends with an audit, which must be clean. A row that fails, or takes longer
than ``MOST_S``, is reported and does not keep the others from being measured.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import FrameType

from benchmarks.ground import Ground, ground, say
from benchmarks.report import Line, as_json, failed, show
from bulkdeploy.wiring.garbage import collect_seldom

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
    14: "row_14_balance",
    15: "row_15_capacity",
    16: "row_16_million",
    17: "row_17_log",
    18: "row_18_peers",
    19: "row_19_callers",
    20: "row_20_quality",
    21: "row_21_fleets",
    22: "row_22_host_loss",
    23: "row_23_seven_calls",
    24: "row_24_single_operations",
}
"""Rows 1 and 2 share a module: both are pure planning."""

ONLY_BY_NAME = {16, 18, 21, 22, 23}
"""16 takes half an hour, most of it to generate a million VMs; 18 runs programs that are elsewhere's; 21 and 23
run thousands of jobs; 22 waits for hosts to be checked.
"""

MOST_S = 300
"""How long one row may take, on however busy a machine; one of ONLY_BY_NAME takes the time it takes."""


class TooLong(Exception):
    """A row did not end in time."""


def main() -> None:
    """Run the rows asked for."""
    requested = os.environ.get("ROW")
    numbers = (
        [1 if requested == "2" else int(requested)]
        if requested
        else [row for row in ROWS if row not in ONLY_BY_NAME]
    )
    lines: list[Line] = []
    began = time.monotonic()
    collect_seldom()  # calls that are measured in this process cost what they cost in a process of the API
    with ground() as shared:
        for number in numbers:
            for one in _lines_of(number, shared):
                lines.append(one)
                print(as_json(one), flush=True)
    say(f"all rows took {time.monotonic() - began:.0f} s")
    show(lines)
    if any(one.met is False for one in lines):
        sys.exit(1)


def _lines_of(number: int, shared: Ground) -> Iterator[Line]:
    """What a row measured; the last line says so where it failed, for what was measured before then counts less."""
    began = time.monotonic()
    try:
        run: Callable[[Ground], Iterator[Line]] = import_module(f"benchmarks.{ROWS[number]}").run
        with _at_most(MOST_S) if number not in ONLY_BY_NAME else nullcontext():
            yield from run(shared)
    except Exception as error:  # noqa: BLE001 - whatever ended this row must not end the others
        traceback.print_exc()
        yield failed(number, f"{type(error).__name__}: {error}")
    say(f"row {number} took {time.monotonic() - began:.0f} s")


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def interrupt(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        raise TooLong(f"it had not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    main()
