"""Row 5: draining a bulk call while hypervisors take no time, against empty Celery tasks."""

from collections.abc import Iterator
from statistics import median

from benchmarks.deploying import drain_empty_tasks, stock_worker, workers
from benchmarks.ground import EMPTY, Ground
from benchmarks.report import Line, line

COUNT = 3000
REPEATS = 3
PROCESSES = 2


def run(ground: Ground) -> Iterator[Line]:
    """Two workers, as `up` starts them."""
    with ground.zone(EMPTY) as bench:
        empty = drain_empty_tasks(bench, processes=PROCESSES, count=3 * COUNT)
        empty.explain("empty tasks")
        with workers(bench, processes=PROCESSES, threads=bench.settings.worker_threads) as running:
            drains = [running.drain(COUNT) for _ in range(REPEATS)]
        for drain in drains:
            drain.explain("drain")
        cpu = median(drain.cpu_ms_per_vm for drain in drains)
        yield line(
            5,
            f"drain, {PROCESSES} workers, hypervisors take no time",
            COUNT,
            [drain.rate for drain in drains],
            unit="VMs/s",
            baseline=empty.rate,
            cpu_ms_per_vm=cpu,
            ratio_at_least=0.4,
        )
        yield line(
            5,
            "drain, CPU of all but the simulator's sessions",
            COUNT,
            [drain.cpu_ms_per_vm for drain in drains],
            unit="ms CPU/VM",
            baseline=empty.cpu_ms_per_vm,
            cpu_ms_per_vm=cpu,
            at_most=1.2,
        )
        yield line(
            5,
            "drain, the simulator's own book-keeping",
            COUNT,
            [1000 * drain.cpu["simulator"] / drain.count for drain in drains],
            unit="ms CPU/VM",
        )
        pool = ("--pool=threads", f"--concurrency={bench.settings.worker_threads}")
        with workers(bench, processes=PROCESSES, threads=1, program=stock_worker(*pool)) as running:
            stock = [running.drain(COUNT) for _ in range(REPEATS)]
        for drain in stock:
            drain.explain("drain by stock workers")
        yield line(
            5,
            "drain, two stock Celery workers instead",
            COUNT,
            [drain.rate for drain in stock],
            unit="VMs/s",
            baseline=median(drain.rate for drain in drains),
            cpu_ms_per_vm=median(drain.cpu_ms_per_vm for drain in stock),
        )
