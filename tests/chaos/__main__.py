"""``make chaos``: break a system in every way there is for some minutes, and see whether it keeps its promises.

``SEED=`` chooses what happens (default: by the clock), ``MINUTES=`` how long (default 10). Exit code 1 on any
breach; the logs are then left where the last line says.
"""

import os
import sys
import time

from tests.chaos.report import report
from tests.chaos.system import new_directory, remove_directory
from tests.chaos.trial import run_trial


def main() -> None:
    """Run one trial."""
    seed = int(os.environ.get("SEED") or time.time())
    minutes = float(os.environ.get("MINUTES") or 10)
    directory = new_directory()
    say(f"SEED={seed} MINUTES={minutes:g}")
    figures = run_trial(seed, minutes * 60, directory, say)
    for line in report(figures):
        say(line)
    if figures.breaches:
        say(f"logs: {directory}")
        sys.exit(1)
    remove_directory(directory)


def say(line: str) -> None:
    """Print one line of the report."""
    print(line, flush=True)  # noqa: T201 - this is what it is for


if __name__ == "__main__":
    main()
