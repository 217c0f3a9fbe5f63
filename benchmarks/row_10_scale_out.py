"""Row 10: more worker processes with drivers that take 50 ms, and what the database would bear."""

import os
from collections.abc import Iterator
from statistics import median

from benchmarks.deploying import Drain, workers
from benchmarks.ground import EMPTY, Ground
from benchmarks.report import Line, line

LATENCY_MS, THREADS, COUNT, REPEATS = 50.0, 4, 800, 2
"""Four threads a process: the hypervisors are the limit, not this machine's CPU."""


def run(ground: Ground) -> Iterator[Line]:
    """1, 2 and 4 processes; each adds what one alone gives until the CPU is full."""
    first: Drain | None = None
    drains: list[Drain] = []
    with ground.zone(EMPTY) as bench:
        for processes in (1, 2, 4):
            with workers(bench, processes=processes, threads=THREADS, latency_ms=LATENCY_MS) as running:
                drains = sorted((running.drain(COUNT) for _ in range(REPEATS)), key=lambda drain: drain.seconds)
            drains[0].explain(f"{processes} workers")
            first = first or drains[0]
            yield line(
                10,
                f"{processes} worker processes of {THREADS} threads, {LATENCY_MS:g} ms per driver call",
                COUNT,
                [drain.rate for drain in drains],
                unit="VMs/s",
                baseline=processes * first.rate,
                cpu_ms_per_vm=median(drain.cpu_ms_per_vm for drain in drains),
                ratio_at_least=0.9,
            )
        per_job = median(drain.cpu["postgres"] / drain.count for drain in drains)
    cores = os.cpu_count() or 1
    yield line(
        10,
        f"completions that PostgreSQL could write with {cores} cores to itself (by its CPU per job)",
        COUNT,
        [cores / per_job],
        unit="jobs/s",
    )
