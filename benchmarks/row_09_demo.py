"""Row 9: the demonstration, from its command to "ready" and to the last VM, as its own output says."""

import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.ground import Ground
from benchmarks.report import Line, line

REPEATS, COUNT = 3, 200
READY = re.compile(r"ready after ([\d.]+) s")
DONE = re.compile(r"(\d+) jobs succeeded, (\d+) failed, in ([\d.]+) s")


def run(ground: Ground) -> Iterator[Line]:
    """It brings servers of its own; exit code 0 says that its spread and its audit are as promised."""
    ready, done = [], []
    for number in range(REPEATS):
        place = ground.directory / f"demo-{number}"
        command = [sys.executable, "-m", "bulkdeploy.manage.main", "demo", "--count", str(COUNT)]
        finished = subprocess.run([*command, "--data-dir", place], capture_output=True, text=True, check=True)
        start, end = READY.search(finished.stdout), DONE.search(finished.stdout)
        assert start is not None, finished.stdout
        assert end is not None, finished.stdout
        assert int(end[1]) == COUNT, finished.stdout
        ready.append(float(start[1]))
        done.append(float(end[3]))
    yield line(9, "make demo: ready to serve", 1, ready, unit="s", at_most=5)
    yield line(9, f"make demo: {COUNT} VMs done (hosts boot in 1 s)", COUNT, done, unit="s", at_most=5)
