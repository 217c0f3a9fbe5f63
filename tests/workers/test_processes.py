"""Worker and sweeper as real processes: what was sent is run, once, in a fair order."""

import json
from base64 import b64encode
from typing import Any

import pytest
from redis import Redis

from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.job_queue import ALL_QUEUES, BULK, INTERACTIVE, JobMessage
from bulkdeploy.wiring.settings import Settings
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import Start, all_done, assert_all_run, consumers, slow_boots, unfinished


def test_a_worker_drains_what_was_sent(fleet: Fleet, start: Start) -> None:
    """A Celery worker process takes the messages of every queue and runs each job once."""
    start(*WORKER)
    fleet.deploy(40)
    fleet.deploy(1, bulk=False)
    fleet.deploy(40)
    wait_for(lambda: all_done(fleet))
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert_all_run(fleet, 81)


def test_a_person_does_not_wait_for_a_batch(fleet: Fleet, start: Start) -> None:
    """A single deploy sent after a large batch is done long before the batch is."""
    slow_boots(fleet, 100)
    fleet.deploy(150)
    fleet.deploy(1, bulk=False)
    start(*WORKER)
    single = fleet.jobs()[-1].id
    wait_for(lambda: fleet.job(single).status != 0)
    assert unfinished(fleet) > 75
    wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 151)


def test_a_small_batch_does_not_wait_for_a_large_one(fleet: Fleet, quick: Settings, start: Start) -> None:
    """A batch of ten sent after one of fifty thousand gets every other turn, and a single deploy its own."""
    slow_boots(fleet, 20)
    fleet.deploy(150)
    fleet.zone.change("UPDATE deployments SET vm_count = 50000")
    fleet.deploy(10)
    fleet.deploy(1, bulk=False)
    for queue_name in ALL_QUEUES:
        Redis.from_url(fleet.settings.require_redis_url()).delete(queue_name)
    fleet.zone.change("UPDATE async_jobs SET created = created - interval '1 minute'")
    fleet.sweeper().requeue_lost()
    fleet.sweeper().send_unsent()
    assert fleet.system.job_queue.waiting() == {
        **dict.fromkeys(ALL_QUEUES, 0),
        BULK[3]: 150,
        BULK[0]: 10,
        INTERACTIVE: 1,
    }
    start(*WORKER)
    wait_for(lambda: all_done(fleet))
    # Turns show in the order of begin: while one driver's connection is slow, others overtake it by any number.
    order = fleet.zone.rows(
        "SELECT count(*) OVER (ORDER BY j.started) AS place, d.bulk, d.vm_count"
        " FROM async_jobs j JOIN deployments d ON d.id = j.deployment_id"
    )
    in_hand = 2 * quick.worker_threads + 4
    assert max(row.place for row in order if row.vm_count == 10) <= 2 * 10 + 1 + in_hand
    assert max(row.place for row in order if not row.bulk) <= 3 + in_hand
    fleet.zone.change("UPDATE deployments SET vm_count = 150 WHERE vm_count = 50000")
    assert_all_run(fleet, 161)


@pytest.mark.long
def test_jobs_of_a_later_release_are_left_to_its_workers(fleet: Fleet, start: Start) -> None:
    """A kind that this worker and sweeper do not know is sent on and on, until a worker comes that knows it."""
    fleet.deploy(5)
    unknown = fleet.jobs()[0]
    fleet.zone.change("UPDATE async_jobs SET kind = 'paint_virtual_machine' WHERE id = :id", id=unknown.id)
    fleet.zone.change("INSERT INTO outbox SELECT id, 'jobs.interactive', kind FROM async_jobs")
    start(*SWEEPER)
    start(*WORKER)
    wait_for(lambda: unfinished(fleet) == 1)
    wait_for(lambda: fleet.zone.scalar("SELECT count(*) FROM outbox WHERE created > now()") == 1)
    assert (fleet.job(unknown.id).phase, fleet.job(unknown.id).attempts) == ("queued", 0)
    fleet.zone.change("UPDATE async_jobs SET kind = 'deploy_virtual_machine' WHERE status = 0")
    wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 5)


def test_duplicates_and_nonsense_do_no_harm(fleet: Fleet, start: Start) -> None:
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
    wait_for(lambda: all_done(fleet) and sum(fleet.system.job_queue.waiting().values()) == 0)
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert_all_run(fleet, 20)


def test_messages_of_strangers_do_no_harm(fleet: Fleet, start: Start) -> None:
    """What names no job, or is not even JSON, is dropped, and the same worker runs what comes after it."""
    fleet.system.job_queue.send([JobMessage(123456789, DEPLOY.name, INTERACTIVE)])
    redis = Redis.from_url(fleet.settings.require_redis_url())
    (ours,) = redis.lrange(INTERACTIVE, 0, -1)
    bodies = [
        b"[[], {}, {}]",
        b'[["12"], {}, {}]',
        b"[[true], {}, {}]",
        b"[[9999999999999999999], {}, {}]",
        b"[[0], {}, {}]",
    ]
    bodies += [
        b"{}",
        b"7",
        b"[[1",
        b"\xff",
        b'{"task": "bulkdeploy.deploy_virtual_machine", "id": "x", "args": [5]}',
    ]
    for body in bodies:
        redis.lpush(INTERACTIVE, json.dumps({**json.loads(ours), "body": b64encode(body).decode()}))
    wrong: tuple[dict[str, Any] | None, ...] = ({}, None, {"task": [1]}, {"task": {}}, {"task": "bulkdeploy.paint"})
    for headers in wrong:
        redis.lpush(INTERACTIVE, json.dumps({**json.loads(ours), "headers": headers}))
    redis.lpush(INTERACTIVE, json.dumps({**json.loads(ours), "content-type": "application/x-python-serialize"}))
    worker = start(*WORKER)
    wait_for(lambda: redis.llen(INTERACTIVE) == 0)
    fleet.deploy(3)
    wait_for(lambda: all_done(fleet))
    assert worker.poll() is None
    assert_all_run(fleet, 3)


def test_two_sweepers_and_two_workers_share(fleet: Fleet, redis_database_url: str, start: Start) -> None:
    """Several of each do the work once, and each worker has its part."""
    slow_boots(fleet, 50)
    for _ in range(2):
        start(*SWEEPER)
        start(*WORKER)
    wait_for(lambda: consumers(redis_database_url) == 2)
    fleet.deploy(100)
    wait_for(lambda: all_done(fleet))
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert len({job.lease_owner for job in fleet.jobs()}) == 2
    assert_all_run(fleet, 100)
