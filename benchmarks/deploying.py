"""Making deployments without HTTP, and letting workers drain them, with the CPU that each part takes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from redis import Redis
from sqlalchemy import Connection, Row, text

from benchmarks.cpu import CpuMeter
from benchmarks.generation import OFFERING, TEMPLATE
from benchmarks.ground import BenchmarkZone, GeneratedZone, say
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.deployments.deployment import DeployCall, DeployRequest
from bulkdeploy.drivers.simulator.control import Distribution, Latency, Step, set_latency
from bulkdeploy.drivers.simulator.database import connect
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.queue.job_queue import ALL_QUEUES, BULK, JobMessage
from bulkdeploy.services.deployments.deploy import deploy
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.callers import caller_by_api_key
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.deployments.deployments import DeployedVms
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.drivers import build_configured_drivers, simulator_url
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue

DEADLINE_S = 300.0
POLL_S = 0.05
SIMULATOR, WATCHER = "simulator", "watcher"
"""Sessions of PostgreSQL that are no part of the product's own cost."""

EMPTY_WORKER = ("-m", "benchmarks.empty_worker")


def stock_worker(*options: str) -> tuple[str, ...]:
    """A worker as Celery ships it, on our tasks."""
    return (
        "-m",
        "celery",
        "-A",
        "workers.app",
        "--quiet",
        "worker",
        "--without-gossip",
        "--without-mingle",
        *options,
    )


@dataclass
class RecordingQueue:
    """A job queue that keeps what it is told to send, so that a drain begins when the clock does."""

    messages: list[JobMessage] = field(default_factory=list)

    def send(self, messages: Sequence[JobMessage]) -> None:
        """Keep."""
        self.messages += messages

    def waiting(self) -> dict[str, int]:
        """Nothing waits anywhere else."""
        return dict.fromkeys(ALL_QUEUES, 0)


def id_of(connection: Connection, table: str, name: str) -> Row[tuple[int, str]]:
    """The internal id and the uuid of a generated row."""
    query = f"SELECT id, uuid::text FROM {table} WHERE name = :name AND removed IS NULL"  # noqa: S608 - our own names
    return connection.execute(text(query), {"name": name}).one()


def admin(bench: GeneratedZone) -> Caller:
    """The admin as the API knows it."""
    with bench.engine.connect() as connection:
        row = admin_row(connection)
        assert row is not None
        found = caller_by_api_key(connection, row.api_key)
    assert found is not None
    return found.caller


def bulk_request(bench: GeneratedZone, count: int) -> DeployRequest:
    """A bulk call for the generated zone's offering and template."""
    with bench.engine.connect() as connection:
        ids = [
            id_of(connection, table, name).id
            for table, name in (
                ("zones", "bench-1"),
                ("service_offerings", OFFERING),
                ("templates", TEMPLATE),
                ("networks", "guests"),
            )
        ]
    return DeployRequest(
        bulk=True,
        count=count,
        zone_id=ids[0],
        service_offering_id=ids[1],
        template_id=ids[2],
        network_ids=(ids[3],),
        method="POST",
    )


def deploy_without_sending(bench: GeneratedZone, count: int) -> tuple[DeployedVms, list[JobMessage]]:
    """A whole bulk call but its sending."""
    held = RecordingQueue()
    drivers = build_configured_drivers(bench.settings, bench.engine)
    system = System(bench.engine, held, build_cipher(bench.settings), bench.settings.data_dir, drivers)
    calls = [DeployCall(admin(bench), (bulk_request(bench, count),))]
    (made,) = run_transaction(bench.engine, partial(deploy, system=system, calls=calls))
    assert isinstance(made, DeployedVms)
    return made, held.messages


@dataclass(frozen=True)
class Drain:
    """One drain: VMs per second from the sending to the last job done, and CPU seconds by sort of process."""

    count: int
    seconds: float
    cpu: dict[str, float]

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.count / self.seconds

    @property
    def cpu_ms_per_vm(self) -> float:
        """CPU of all processes but the simulator's sessions and the one that watches, ms per VM."""
        counted = [used for name, used in self.cpu.items() if name not in (SIMULATOR, WATCHER)]
        return 1000 * sum(counted) / self.count

    def explain(self, name: str) -> None:
        """Say where the CPU went."""
        parts = ", ".join(f"{part} {1000 * used / self.count:.3f}" for part, used in sorted(self.cpu.items()))
        say(f"{name}: {self.rate:.0f}/s; CPU ms per VM: {parts}")


@dataclass(frozen=True)
class Workers:
    """Running worker processes, warm, with nothing to do."""

    bench: BenchmarkZone
    settings: Settings
    groups: Mapping[str, Sequence[int]]

    def drain(self, count: int, during: Callable[[Callable[[], bool]], None] | None = None) -> Drain:
        """Deploy and let run; all must succeed. ``during`` is called with a question: is it still going on?"""
        _, messages = deploy_without_sending(self.bench, count)
        return self.run_jobs(messages, during)

    def run_jobs(
        self, messages: Sequence[JobMessage], during: Callable[[Callable[[], bool]], None] | None = None
    ) -> Drain:
        """Send the messages of jobs that exist and wait until no job is open; all of these jobs must succeed."""
        queue = build_job_queue(self.settings)
        with self.bench.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            watcher = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            meter = CpuMeter(self.groups, {SIMULATOR: self.bench.simulator_pids, WATCHER: lambda: [watcher]})
            meter.start()
            began = time.perf_counter()
            queue.send(messages)
            wait = _Wait(connection)
            if during is not None:
                during(wait.goes_on)
            while wait.goes_on():
                time.sleep(POLL_S)
            drain = Drain(len(messages), wait.last_seen - began, meter.stop())
            failed = "SELECT result FROM async_jobs WHERE status <> 1 AND id = ANY(:ids)"
            results = connection.execute(text(failed), {"ids": [message.job_id for message in messages]}).all()
            assert not results, (len(results), results[:3])
            return drain


class _Wait:
    """Whether jobs are open, asked at most every POLL_S."""

    OPEN = text("SELECT id FROM async_jobs WHERE status = 0 ORDER BY phase, lease_until LIMIT 1")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._deadline = time.perf_counter() + DEADLINE_S
        self.last_seen = time.perf_counter()
        self._over = False

    def goes_on(self) -> bool:
        """True while jobs are open."""
        now = time.perf_counter()
        assert now < self._deadline, "the drain does not end"
        if not self._over and now - self.last_seen >= POLL_S:
            self._over = self._connection.execute(self.OPEN).first() is None
            self.last_seen = time.perf_counter()
        return not self._over


@contextmanager
def workers(
    bench: BenchmarkZone, *, processes: int, threads: int, latency_ms: float = 0.0, program: Sequence[str] = WORKER
) -> Iterator[Workers]:
    """Worker processes and a sweeper, warmed up; a boot takes ``latency_ms``."""
    with connect(simulator_url(bench.settings)) as control:
        set_latency(control, Latency(Step.BOOT, Distribution.FIXED, latency_ms))
    settings = bench.settings.model_copy(update={"worker_threads": threads})
    running = [bench.start(program, settings) for _ in range(processes)]
    sweeper = bench.start(SWEEPER, settings)
    Workers(bench, settings, server_pids(bench)).drain(50 * processes)
    groups = {
        "workers": [process.pid for process in running],
        "sweeper": [sweeper.pid],
        **server_pids(bench),
    }
    try:
        yield Workers(bench, settings, groups)
    finally:
        for process in (*running, sweeper):
            process.terminate()
        for process in (*running, sweeper):
            process.wait(30)


def server_pids(bench: BenchmarkZone) -> dict[str, list[int]]:
    """The embedded servers."""
    postgres, valkey = bench.ground.postgres.process, bench.ground.valkey.process
    assert postgres is not None
    assert valkey is not None
    return {"postgres": [postgres.pid], "valkey": [valkey.pid]}


def drain_empty_tasks(bench: BenchmarkZone, *, processes: int, count: int) -> Drain:
    """The same Celery worker with tasks that do nothing, on as many messages of the same form."""
    settings = bench.settings.model_copy(update={"redis_url": bench.ground.settings("none").redis_url})
    running = [bench.start(EMPTY_WORKER, settings) for _ in range(processes)]
    queue, redis = CeleryJobQueue(settings.require_redis_url()), Redis.from_url(settings.require_redis_url())
    meter = CpuMeter({"workers": [process.pid for process in running], **server_pids(bench)})
    try:
        _send_and_wait(queue, redis, 200 * processes)
        time.sleep(1.0)  # the slower of the two to start has its share, too
        _send_and_wait(queue, redis, 200 * processes)
        meter.start()
        took = _send_and_wait(queue, redis, count)
        return Drain(count, took, meter.stop())
    finally:
        redis.close()
        queue.close()
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)


def _send_and_wait(queue: CeleryJobQueue, redis: "Redis", count: int) -> float:
    """Send messages of jobs that do not exist; seconds until the queue was empty."""
    began = time.perf_counter()
    queue.send([JobMessage(number, DEPLOY.name, BULK[0]) for number in range(count)])
    while redis.llen(BULK[0]):
        assert time.perf_counter() - began < DEADLINE_S, "nobody drains empty tasks"
        time.sleep(0.005)
    return time.perf_counter() - began
