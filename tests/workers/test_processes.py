"""Worker and sweeper as real processes: killed, told to end, cut off from Redis; nothing lost, nothing twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator_control import Distribution, Latency, Step, set_latency
from bulkdeploy.embedded.valkey import ValkeyServer
from bulkdeploy.manage.programs import SWEEPER, WORKER
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.wiring.settings import Settings
from tests.support.fleet import Fleet
from tests.support.programs import program

PATIENCE_S = 60
SHORTEST_LEASE_S = 5


@pytest.fixture
def quick(fleet: Fleet) -> Settings:
    """Settings with the shortest lease and a busy sweeper."""
    return fleet.settings.model_copy(
        update={"lease_seconds": SHORTEST_LEASE_S, "sweep_interval_seconds": 0.2, "worker_threads": 8}
    )


@pytest.fixture
def start(quick: Settings, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts programs; they end with the test, and their log must hold no traceback."""
    log = tmp_path / "programs.log"
    running = []

    def launch(*arguments: str) -> subprocess.Popen[bytes]:
        manager = program(quick, log, *arguments)
        running.append(manager)
        return manager.__enter__()

    yield launch
    for manager in reversed(running):
        manager.__exit__(None, None, None)
    text = log.read_text()
    sys.stderr.write(text)
    assert "Traceback" not in text


def _wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def _unfinished(fleet: Fleet) -> int:
    return int(fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE status = 0"))


def _all_done(fleet: Fleet) -> bool:
    return _unfinished(fleet) == 0


def _under_way(fleet: Fleet) -> int:
    return int(fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE phase = 'running' AND status = 0"))


def _consumers(redis_url: str) -> int:
    """Workers that wait for messages in this test's database of Redis."""
    redis = Redis.from_url(redis_url)
    own = str(redis.connection_pool.connection_kwargs["db"])
    return sum(client["cmd"] == "brpop" and client["db"] == own for client in redis.client_list())


def _owners(fleet: Fleet) -> set[str]:
    """The workers that hold, or were the last to hold, a lease."""
    rows = fleet.zone.rows("SELECT DISTINCT lease_owner FROM async_jobs WHERE lease_owner IS NOT NULL")
    return {row.lease_owner for row in rows}


def _slow(fleet: Fleet, milliseconds: int) -> None:
    set_latency(fleet.control, Latency(Step.BOOT, Distribution.FIXED, milliseconds))


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A courier that a test may kill and start again."""
    server = ValkeyServer(tmp_path / "valkey.log")
    server.start()
    yield server
    server.stop()


@contextmanager
def _paused(process: subprocess.Popen[bytes]) -> Iterator[None]:
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def _assert_all_run(fleet: Fleet, count: int) -> None:
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    assert len(fleet.guests()) == count
    fleet.assert_intact()


def test_a_worker_drains_what_was_sent(fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A Celery worker process takes the messages of every lane and runs each job once."""
    start(*WORKER)
    fleet.deploy(40)
    fleet.deploy(1, bulk=False)
    fleet.deploy(40)
    _wait_for(lambda: _all_done(fleet))
    assert {job.attempts for job in fleet.jobs()} == {1}
    _assert_all_run(fleet, 81)


def test_a_killed_worker_loses_nothing(fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Killed with -9 in the middle of its jobs: another worker takes over, and every VM runs once."""
    _slow(fleet, 300)
    start(*SWEEPER)
    first = start(*WORKER)
    fleet.deploy(60)
    _wait_for(lambda: _under_way(fleet) >= 8)
    first.kill()
    first.wait()
    assert _unfinished(fleet) > 8
    start(*WORKER)
    _wait_for(lambda: _all_done(fleet))
    assert max(job.attempts for job in fleet.jobs()) == 2
    _assert_all_run(fleet, 60)


def test_workers_killed_again_and_again_under_faults(
    fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Workers killed at random moments while hypervisors fail at random: every job ends, nothing is left over."""
    dice = random.Random(20260101)  # noqa: S311 - moments to kill at
    _slow(fleet, 150)
    fleet.fault(Step.ANY, rate=0.2)
    start(*SWEEPER)
    fleet.deploy(60)
    fleet.deploy(20, cluster="a-1")
    for _ in range(3):
        before = _owners(fleet)
        victim = start(*WORKER)
        _wait_for(lambda known=before: _all_done(fleet) or not _owners(fleet) <= known)
        time.sleep(dice.uniform(0, 0.8))
        victim.kill()
        victim.wait()
    start(*WORKER)
    _wait_for(lambda: _all_done(fleet))
    ends = Counter((job.status, vm.state) for job, vm in zip(fleet.jobs(), fleet.vms(), strict=True))
    assert set(ends) == {(1, "Running"), (2, "Error")}
    assert len(fleet.guests()) == ends[1, "Running"] >= 60
    fleet.assert_intact()


def test_a_worker_that_is_told_to_end_finishes_what_it_has(
    fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """SIGTERM: what was begun is finished by this worker, what was not stays for others; it ends with 0."""
    _slow(fleet, 300)
    first = start(*WORKER)
    fleet.deploy(60)
    _wait_for(lambda: _under_way(fleet) >= 8)
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    assert _under_way(fleet) == 0
    assert _unfinished(fleet) > 0
    start(*WORKER)
    _wait_for(lambda: _all_done(fleet))
    assert {job.attempts for job in fleet.jobs()} == {1}
    _assert_all_run(fleet, 60)


def test_a_worker_that_slept_too_long_is_refused(
    fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A worker stopped beyond its leases wakes up to find its jobs done by another, and changes nothing."""
    _slow(fleet, 500)
    start(*SWEEPER)
    first = start(*WORKER)
    fleet.deploy(8)
    _wait_for(lambda: _under_way(fleet) == 8)
    with _paused(first):
        start(*WORKER)
        _wait_for(lambda: _all_done(fleet))
        finished = fleet.jobs()
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    assert fleet.jobs() == finished
    assert {job.attempts for job in finished} == {2}
    _assert_all_run(fleet, 8)


def test_redis_may_lose_everything(
    fleet: Fleet, redis_database_url: str, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Messages wiped out of Redis before and while workers run delay their jobs and lose none."""
    _slow(fleet, 100)
    redis = Redis.from_url(redis_database_url)
    fleet.deploy(50)
    redis.flushdb()
    start(*SWEEPER)
    start(*WORKER)
    _wait_for(lambda: _under_way(fleet) > 0)
    redis.flushdb()
    _wait_for(lambda: _all_done(fleet))
    _assert_all_run(fleet, 50)


def test_redis_may_be_killed_and_come_back(
    fleet: Fleet, quick: Settings, own_redis: ValkeyServer, tmp_path: Path
) -> None:
    """A courier killed under load and started again, empty: workers consume again, and every VM runs once."""
    _slow(fleet, 100)
    settings = quick.model_copy(update={"redis_url": own_redis.url()})
    fleet.system = replace(fleet.system, job_queue=CeleryJobQueue(own_redis.url()))
    with program(settings, tmp_path / "log", *SWEEPER), program(settings, tmp_path / "log", *WORKER):
        fleet.deploy(40)
        for _ in range(2):
            _wait_for(lambda: _under_way(fleet) > 0)
            own_redis.process.kill()
            own_redis.process.wait()
            time.sleep(1)
            own_redis.start()
        fleet.deploy(20)
        _wait_for(lambda: _all_done(fleet))
    _assert_all_run(fleet, 60)


def test_a_person_does_not_wait_for_a_batch(fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A single deploy sent after a large batch is done long before the batch is."""
    _slow(fleet, 100)
    fleet.deploy(150)
    fleet.deploy(1, bulk=False)
    start(*WORKER)
    single = fleet.jobs()[-1].id
    _wait_for(lambda: fleet.job(single).status != 0)
    assert _unfinished(fleet) > 75
    _wait_for(lambda: _all_done(fleet))
    _assert_all_run(fleet, 151)


def test_duplicates_and_nonsense_do_no_harm(fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Messages sent three times, and messages for jobs that do not exist, run nothing twice."""
    fleet.deploy(20)
    for _ in range(2):
        fleet.zone.change(
            "INSERT INTO outbox SELECT id, 'jobs.interactive', kind, now() - interval '1 h' FROM async_jobs"
        )
        fleet.sweeper().send_unsent()
    fleet.zone.change(
        "INSERT INTO outbox SELECT 123456789, 'jobs.interactive', 'stop_virtual_machine', now() - interval '1 h'"
    )
    fleet.sweeper().send_unsent()
    start(*WORKER)
    _wait_for(lambda: _all_done(fleet) and sum(fleet.system.job_queue.waiting().values()) == 0)
    assert {job.attempts for job in fleet.jobs()} == {1}
    _assert_all_run(fleet, 20)


def test_two_sweepers_and_two_workers_share(
    fleet: Fleet, redis_database_url: str, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Several of each do the work once, and each worker has its part."""
    _slow(fleet, 50)
    for _ in range(2):
        start(*SWEEPER)
        start(*WORKER)
    _wait_for(lambda: _consumers(redis_database_url) == 2)
    fleet.deploy(100)
    _wait_for(lambda: _all_done(fleet))
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert len({job.lease_owner for job in fleet.jobs()}) == 2
    _assert_all_run(fleet, 100)


def test_the_database_may_go_away_for_a_while(fleet: Fleet, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Connections cut under a worker's hands cost time and nothing else."""
    _slow(fleet, 100)
    start(*SWEEPER)
    start(*WORKER)
    fleet.deploy(60)
    for _ in range(3):
        _wait_for(lambda: _under_way(fleet) > 0 or _all_done(fleet))
        fleet.zone.change(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'bulkdeploy worker' AND datname = current_database()"
        )
        time.sleep(0.3)
    _wait_for(lambda: _all_done(fleet))
    _assert_all_run(fleet, 60)
