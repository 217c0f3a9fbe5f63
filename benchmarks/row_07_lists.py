"""Row 7: lists over HTTP at 25,000 hosts and 25,000 VMs, against writing the same rows as JSON."""

import json
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.calling import Client, admin_client
from benchmarks.cpu import resident_bytes
from benchmarks.ground import LISTED, Ground
from benchmarks.report import Line, line

PAGE = 500
MIB = 1 << 20
LISTS = {"listVirtualMachines": {"listall": "true"}, "listHosts": {"type": "Routing"}}
COUNTS = (
    ("listVirtualMachines", {"listall": "true", "state": "Running"}),
    ("listVirtualMachines", {"listall": "true", "keyword": "bench-1-vm-7"}),
    ("listHosts", {"type": "Routing", "state": "Up"}),
)


def run(ground: Ground) -> Iterator[Line]:
    """Pages, counts, then everything."""
    with ground.zone(LISTED) as bench:
        api = bench.api()
        client = admin_client(bench, api.settings.url)
        for command, filters in LISTS.items():
            _timed(client, command, 6, **filters, page=1, pagesize=PAGE)
            times, raw = _timed(client, command, 12, **filters, page=20, pagesize=PAGE)
            yield line(7, f"{command}, page 20 of {PAGE}", PAGE, times, baseline=raw, at_most=60)
        for command, filters in COUNTS:
            words = ", ".join(f"{name}={value}" for name, value in filters.items())
            times, _ = _timed(client, command, 12, **filters, page=1, pagesize=1)
            yield line(7, f"{command}, one row and the count ({words})", 1, times, at_most=20)
        before = resident_bytes(api.process.pid)
        for command, filters in LISTS.items():
            times, raw = _timed(client, command, 3, **filters, pagesize=-1)
            yield line(7, f"{command}, pagesize=-1", 25_000, times, baseline=raw, at_most=1500)
        grown = (resident_bytes(api.process.pid, peak=True) - before) / MIB
        yield line(7, "memory of the API processes with all rows at once", 25_000, [grown], unit="MiB more")


def _timed(client: Client, command: str, repeats: int, **parameters: object) -> tuple[list[float], float]:
    """Milliseconds of each call, and of ``json.dumps`` of the same answer."""
    times, raw = [], []
    for _ in range(repeats):
        answered = client.call(command, **parameters)
        rows = json.loads(answered.body)
        began = time.perf_counter()
        json.dumps(rows)
        raw.append(1000 * (time.perf_counter() - began))
        times.append(answered.ms)
    return times, median(raw)
