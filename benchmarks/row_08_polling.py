"""Row 8: 32 clients that poll jobs without a pause, alone and while 10,000 jobs drain.

The baseline is an empty view under the same gunicorn with the same settings, asked by the same clients.
"""

from collections.abc import Callable, Iterator

from sqlalchemy import text

from benchmarks.calling import Load, admin_client, crowd
from benchmarks.deploying import workers
from benchmarks.ground import EMPTY, Ground, end
from benchmarks.report import Line, line

CLIENTS, SECONDS, COUNT = 32, 4.0, 10_000
EMPTY_API = ("-m", "benchmarks.empty_api")


def run(ground: Ground) -> Iterator[Line]:
    """Empty view, polling alone, the drain alone, both."""
    with ground.zone(EMPTY) as room:
        empty_api = room.api(EMPTY_API)
        crowd(empty_api.settings.url, ["/client/api"], CLIENTS, _for(1.0))
        empty = crowd(empty_api.settings.url, ["/client/api"], CLIENTS, _for(SECONDS))
        end(empty_api.process)
        api = room.api()
        client = admin_client(room, api.settings.url)
        with workers(room, processes=2, threads=room.settings.worker_threads) as running:
            alone = running.drain(COUNT)
            alone.explain("drain alone")
            with room.engine.connect() as connection:
                jobs = connection.execute(text("SELECT uuid FROM async_jobs ORDER BY id DESC LIMIT 2000")).scalars()
                targets = [f"/client/api?{client.query('queryAsyncJobResult', jobid=job)}" for job in jobs]
            crowd(api.settings.url, targets, CLIENTS, _for(1.0))
            polling = crowd(api.settings.url, targets, CLIENTS, _for(SECONDS))
            loads: list[Load] = []

            def poll(goes_on: Callable[[], bool]) -> None:
                loads.append(crowd(api.settings.url, targets, CLIENTS, lambda _: goes_on()))

            together = running.drain(COUNT, poll)
            together.explain("drain while polled")
        yield line(
            8,
            f"queryAsyncJobResult, {CLIENTS} clients",
            CLIENTS,
            [polling.rate],
            unit="calls/s",
            baseline=empty.rate,
            ratio_at_least=0.5,
        )
        yield line(
            8,
            f"queryAsyncJobResult, {CLIENTS} clients, while {COUNT} jobs drain",
            CLIENTS,
            [loads[0].rate],
            unit="calls/s",
            baseline=empty.rate,
            ratio_at_least=0.5,
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


def _for(seconds: float) -> Callable[[float], bool]:
    return lambda gone: gone < seconds
