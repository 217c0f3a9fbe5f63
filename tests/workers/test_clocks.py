"""Clocks that are set forward and back by an hour, of machines and of the database, break nothing."""

import time
from pathlib import Path

import pytest
from redis import Redis

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.provisioning.running.sweeping import Sweeper
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import Start, all_done, assert_all_run, slow_boots

pytestmark = pytest.mark.long

RESTLESS_CLOCK = '''
import time

_true, _true_ns = time.time, time.time_ns

def _error_s():
    """An hour ahead in every other second, an hour behind in between."""
    return 3600 if int(time.monotonic()) % 2 else -3600

time.time = lambda: _true() + _error_s()
time.time_ns = lambda: _true_ns() + _error_s() * 10**9
'''


def test_machines_whose_clocks_jump(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    """A worker and a sweeper whose clock jumps by two hours every second run each job once."""
    (tmp_path / "sitecustomize.py").write_text(RESTLESS_CLOCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    slow_boots(fleet, 200)
    start(*SWEEPER)
    start(*WORKER)
    fleet.deploy(60)
    wait_for(lambda: all_done(fleet))
    assert {(job.attempts, job.lost_leases) for job in fleet.jobs()} == {(1, 0)}
    assert_all_run(fleet, 60)


def _set_clock_of_rows(fleet: Fleet, interval: str) -> None:
    """Every time in the tables is this much later: as if the database's clock had been set back by it."""
    fleet.zone.change(
        "UPDATE async_jobs SET created = created + CAST(:by AS interval),"
        " started = started + CAST(:by AS interval),"
        " retry_at = retry_at + CAST(:by AS interval), lease_until = lease_until + CAST(:by AS interval)",
        by=interval,
    )
    fleet.zone.change("UPDATE outbox SET created = created + CAST(:by AS interval)", by=interval)


def test_the_databases_clock_is_set_back(fleet: Fleet) -> None:
    """What was sent, leased by a worker that died, paused or lost before is seen to at once, not an hour later."""
    fleet.deploy(4)
    lost, leased, paused, unsent = fleet.jobs()
    redis = Redis.from_url(fleet.settings.require_redis_url())
    for queue_name in fleet.system.job_queue.waiting():
        redis.delete(queue_name)
    fleet.zone.change(
        "UPDATE async_jobs SET phase = 'running', lease_fence = 1, attempts = 1, started = now(),"
        " lease_until = now() + interval '60 s' WHERE id = :id",
        id=leased.id,
    )
    fleet.zone.change(
        "UPDATE async_jobs SET phase = 'waiting', retry_at = now() + interval '5 s' WHERE id = :id", id=paused.id
    )
    fleet.zone.change("INSERT INTO outbox VALUES (:id, 'jobs.interactive', :kind)", id=unsent.id, kind=unsent.kind)
    _set_clock_of_rows(fleet, "1 hour")
    sweeper = fleet.sweeper()
    sweeper.requeue_dropped()
    sweeper.requeue_lost()
    sweeper.send_unsent()
    assert sum(fleet.system.job_queue.waiting().values()) == 4
    assert {job.id for job in (lost, leased, paused, unsent)} == {job.id for job in fleet.jobs()}
    fleet.run()
    assert_all_run(fleet, 4)


def test_the_databases_clock_is_set_forward(fleet: Fleet) -> None:
    """Jobs that look an hour old because the clock was set are not failed for it."""
    fleet.deploy(2)
    behind_s = [0.0]
    sweeper = Sweeper(fleet.engine, fleet.system.job_queue, clock=lambda: time.monotonic() - behind_s[0])
    sweeper.end_late()
    fleet.zone.change(
        "UPDATE async_jobs SET phase = 'waiting', attempts = 1, started = now() - interval '61 minutes',"
        " created = now() - interval '61 minutes', retry_at = now()"
    )
    behind_s[0] = 3600
    sweeper.end_late()
    assert [job.progress for job in fleet.jobs()] == [None, None]
    fleet.run()
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    fleet.assert_intact()
