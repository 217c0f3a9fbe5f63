"""Row 8: 32 clients that poll jobs without a pause, alone and while 10,000 jobs drain.

The baseline is an empty view under the same gunicorn with the same settings, asked by the same clients. Two more
show what no server can be better than: a view that asks the database for one row, a drain beside the empty view.
"""

from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import text

from benchmarks.calling import Load, admin_client, crowd
from benchmarks.deploying import Drain, Workers, workers
from benchmarks.ground import EMPTY, Api, BenchmarkZone, Ground, end
from benchmarks.report import Line, line

CLIENTS, SECONDS, COUNT = 32, 4.0, 10_000
NICENESS, FEWER = (0, 5, 10, 19), 3000
EMPTY_API = ("-m", "benchmarks.empty_api")


def run(ground: Ground) -> Iterator[Line]:
    """What any server could do, then polling alone, the drain alone, both."""
    with ground.zone(EMPTY) as bench, workers(bench, processes=2, threads=bench.settings.worker_threads) as running:
        alone = running.drain(COUNT)
        alone.explain("drain alone")
        empty_api = bench.api(EMPTY_API)
        empty = _rate(empty_api, ["/client/api"])
        job_requests = _rate(empty_api, ["/asking"])
        _, beside_empty = _drain_while_polled(running, empty_api, ["/client/api"])
        end(empty_api.process)
        api = bench.api()
        targets = _polls(bench, api)
        polling = _rate(api, targets)
        polling_meanwhile, together = _drain_while_polled(running, api, targets)
        together.explain("drain while polled")
        yield line(
            8,
            f"a view that asks for one row, {CLIENTS} clients",
            CLIENTS,
            [job_requests],
            unit="calls/s",
            baseline=empty,
        )
        for name, rate in (("", polling), (f", while {COUNT} jobs drain", polling_meanwhile.rate)):
            yield line(
                8,
                f"queryAsyncJobResult, {CLIENTS} clients{name}",
                CLIENTS,
                [rate],
                unit="calls/s",
                baseline=empty,
                ratio_at_least=0.5,
            )
        yield line(
            8,
            f"drain of {COUNT} jobs while {CLIENTS} clients call the empty view without a pause",
            COUNT,
            [beside_empty.rate],
            unit="VMs/s",
            baseline=alone.rate,
        )
        yield line(
            8,
            f"drain of {COUNT} jobs while {CLIENTS} clients poll without a pause",
            COUNT,
            [together.rate],
            unit="VMs/s",
            baseline=alone.rate,
            cpu_ms_per_vm=together.cpu_ms_per_vm,
            ratio_at_least=0.85,
        )
        end(api.process)
        yield from _yielding(bench, running, targets)


def _yielding(bench: BenchmarkZone, running: Workers, targets: Sequence[str]) -> Iterator[Line]:
    """The drain, and how long polls take meanwhile, for each ``api_niceness``."""
    alone = running.drain(FEWER)
    for niceness in NICENESS:
        api = bench.api(settings=bench.settings.model_copy(update={"api_niceness": niceness}))
        load, drain = _drain_while_polled(running, api, targets, FEWER)
        end(api.process)
        what = f"api_niceness {niceness}, {CLIENTS} clients poll without a pause"
        yield line(
            8,
            f"drain of {FEWER} jobs, {what}",
            FEWER,
            [drain.rate],
            unit="VMs/s",
            baseline=alone.rate,
            cpu_ms_per_vm=drain.cpu_ms_per_vm,
        )
        waits = load.waits or [1000 * drain.seconds]  # none was answered before the drain had ended
        yield line(8, f"a poll meanwhile, {what}", CLIENTS, waits, unit="ms")


def _rate(api: Api, targets: Sequence[str]) -> float:
    """Answers per second, once warm."""
    crowd(api.settings.url, targets, CLIENTS, _for(1.0))
    return crowd(api.settings.url, targets, CLIENTS, _for(SECONDS)).rate


def _drain_while_polled(
    running: Workers, api: Api, targets: Sequence[str], count: int = COUNT
) -> tuple[Load, Drain]:
    """The answers while jobs drain, and the drain."""
    loads: list[Load] = []

    def request(goes_on: Callable[[], bool]) -> None:
        loads.append(crowd(api.settings.url, targets, CLIENTS, lambda _: goes_on()))

    drain = running.drain(count, request)
    return loads[0], drain


def _polls(bench: BenchmarkZone, api: Api) -> list[str]:
    """Signed polls of 2,000 jobs that are done."""
    client = admin_client(bench, api.settings.url)
    with bench.engine.connect() as connection:
        jobs = connection.execute(text("SELECT uuid FROM async_jobs ORDER BY id DESC LIMIT 2000")).scalars()
        return [f"/client/api?{client.query('queryAsyncJobResult', jobid=job)}" for job in jobs]


def _for(seconds: float) -> Callable[[float], bool]:
    return lambda gone: gone < seconds
