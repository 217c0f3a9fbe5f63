"""Redis and the database going away under the hands of workers: time is lost, and nothing else."""

import time
from dataclasses import replace
from pathlib import Path

from redis import Redis

from bulkdeploy.embedded.valkey import ValkeyServer
from bulkdeploy.manage.programs import SWEEPER, WORKER
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.wiring.settings import Settings
from tests.support.fleet import Fleet
from tests.support.programs import program
from tests.workers.processes import Start, all_done, assert_all_run, slow_boots, under_way, wait_for


def test_redis_may_lose_everything(fleet: Fleet, redis_database_url: str, start: Start) -> None:
    """Messages wiped out of Redis before and while workers run delay their jobs and lose none."""
    slow_boots(fleet, 100)
    redis = Redis.from_url(redis_database_url)
    fleet.deploy(50)
    redis.flushdb()
    start(*SWEEPER)
    start(*WORKER)
    wait_for(lambda: under_way(fleet) > 0)
    redis.flushdb()
    wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 50)


def test_redis_may_be_killed_and_come_back(
    fleet: Fleet, quick: Settings, own_redis: ValkeyServer, tmp_path: Path
) -> None:
    """A courier killed under load and started again, empty: workers consume again, and every VM runs once."""
    slow_boots(fleet, 100)
    settings = quick.model_copy(update={"redis_url": own_redis.url()})
    fleet.system = replace(fleet.system, job_queue=CeleryJobQueue(own_redis.url()))
    with program(settings, tmp_path / "log", *SWEEPER), program(settings, tmp_path / "log", *WORKER):
        fleet.deploy(40)
        for _ in range(2):
            wait_for(lambda: under_way(fleet) > 0)
            own_redis.process.kill()
            own_redis.process.wait()
            time.sleep(1)
            own_redis.start()
        fleet.deploy(20)
        wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 60)


def test_the_database_may_go_away_for_a_while(fleet: Fleet, start: Start) -> None:
    """Connections cut under a worker's hands cost time and nothing else."""
    slow_boots(fleet, 100)
    start(*SWEEPER)
    start(*WORKER)
    fleet.deploy(60)
    for _ in range(3):
        wait_for(lambda: under_way(fleet) > 0 or all_done(fleet))
        fleet.zone.change(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'bulkdeploy worker' AND datname = current_database()"
        )
        time.sleep(0.3)
    wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 60)
