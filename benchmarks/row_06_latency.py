"""Row 6: draining while hypervisors take their time, with 200 calls in flight."""

from collections.abc import Iterator
from statistics import median

from benchmarks.deploying import workers
from benchmarks.ground import EMPTY, Ground
from benchmarks.report import Line, line

PROCESSES, IN_FLIGHT = 2, 200
CASES = {50.0: (3000, 2), 2000.0: (2000, 1)}
"""Milliseconds of a driver call, how many VMs are drained, and how often: the first calls all begin at once, and
with fewer than ten rounds of 200 that beginning would be measured, not the rate."""

UNLOADED = 3000


def run(ground: Ground) -> Iterator[Line]:
    """The rate without latency first: it bounds what 200 in flight can give."""
    threads = IN_FLIGHT // PROCESSES
    with ground.zone(EMPTY) as bench:
        with workers(bench, processes=PROCESSES, threads=threads) as running:
            unloaded = median(running.drain(UNLOADED).rate for _ in range(2))
        for latency, (count, repeats) in CASES.items():
            with workers(bench, processes=PROCESSES, threads=threads, latency_ms=latency) as running:
                drains = [running.drain(count) for _ in range(repeats)]
            for drain in drains:
                drain.explain(f"{latency:g} ms per call")
            by_latency = 1000 * IN_FLIGHT / latency
            yield line(
                6,
                f"drain, {latency:g} ms per driver call, {IN_FLIGHT} in flight"
                f" (bound: {'in flight / latency' if by_latency < unloaded else 'the rate without latency'})",
                count,
                [drain.rate for drain in drains],
                unit="VMs/s",
                baseline=min(by_latency, unloaded),
                cpu_ms_per_vm=median(drain.cpu_ms_per_vm for drain in drains),
                ratio_at_least=0.9,
            )
