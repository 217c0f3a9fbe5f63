"""The short form of ``make chaos``: some seconds of load and faults, then quiet, and every promise kept."""

import sys

import pytest

from tests.chaos.report import report
from tests.chaos.system import new_directory, remove_directory
from tests.chaos.trial import run_trial

SEED = 20260101
SECONDS = 10.0


@pytest.mark.long
def test_ten_seconds_of_chaos() -> None:
    """Whatever is killed, paused, cut and broken: nothing is lost, nothing is done twice, nothing is left over."""
    directory = new_directory()
    try:
        figures = run_trial(SEED, SECONDS, directory, lambda line: sys.stderr.write(f"{line}\n"))
        assert figures.breaches == [], "\n".join(report(figures))
        assert figures.done["kill -9"] > 0
        assert figures.states["deployed"] > 0
    finally:
        remove_directory(directory)
