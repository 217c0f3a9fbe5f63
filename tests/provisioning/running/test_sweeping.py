"""The sweeper: whatever got lost, dropped, late or old is seen to; several sweepers share the work."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from redis import Redis
from sqlalchemy import Connection, event

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.provisioning.progress import TOO_LATE
from bulkdeploy.provisioning.running.relay import MESSAGES_AT_ONCE, Relay
from bulkdeploy.provisioning.running.sweeping import Sweeper
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.queue.job_queue import ALL_QUEUES, INTERACTIVE, QueueUnavailable, bulk_queue
from bulkdeploy.store.jobs.job_sweeping import LOST_AFTER_S
from tests.support.processes.messages import job_of, take_messages
from tests.support.zones.fleet import Fleet

Waiting = Callable[[], Counter[int]]


@pytest.fixture
def waiting(fleet: Fleet, redis_database_url: str) -> Waiting:
    """The ids of jobs whose messages wait in Redis, with how many messages each; taking them away."""
    redis = Redis.from_url(redis_database_url)

    def take() -> Counter[int]:
        return Counter(job_of(message) for queue in ALL_QUEUES for message in take_messages(redis, queue))

    del fleet
    return take


def _ids(fleet: Fleet) -> list[int]:
    return [job.id for job in fleet.jobs()]


def _age(fleet: Fleet, seconds: int) -> None:
    fleet.zone.change(
        "UPDATE async_jobs SET created = created - make_interval(secs => :s),"
        " retry_at = retry_at - make_interval(secs => :s), started = started - make_interval(secs => :s),"
        " completed = completed - make_interval(secs => :s), lease_until = lease_until - make_interval(secs => :s)",
        s=seconds,
    )
    fleet.zone.change("UPDATE outbox SET created = created - make_interval(secs => :s)", s=seconds)


def _twice_at_once(sweep: Callable[[], None]) -> None:
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(sweep) for _ in range(2)]:
            done.result()


@pytest.fixture
def unsent(fleet: Fleet) -> Fleet:
    """A deployment that was written while Redis was away."""
    system = fleet.system
    fleet.system = replace(system, job_queue=CeleryJobQueue("redis://127.0.0.1:1/0"))
    fleet.deploy(5)
    fleet.system = system
    return fleet


def test_a_deployment_survives_redis_being_away(unsent: Fleet, waiting: Waiting) -> None:
    """The call is answered, nothing is sent; the sweeper sends every message once, to the deployment's queue."""
    assert waiting() == Counter()
    assert unsent.zone.scalar("SELECT count(*) FROM outbox") == 5
    _age(unsent, 2)
    unsent.sweeper().send_unsent()
    assert unsent.system.job_queue.waiting()[bulk_queue(5)] == 5
    assert waiting() == Counter(_ids(unsent))
    assert unsent.zone.scalar("SELECT count(*) FROM outbox") == 0


def test_the_outbox_is_left_to_its_writer_for_a_moment(unsent: Fleet, waiting: Waiting) -> None:
    """A row just written is not sent by the sweeper: its writer is about to."""
    relay = Relay(unsent.engine, unsent.system.job_queue, grace_s=60)
    assert relay.send_unsent() == 0
    _age(unsent, 60)
    assert relay.send_unsent() == 5
    assert waiting() == Counter(_ids(unsent))


def test_a_relay_without_redis_keeps_the_outbox(unsent: Fleet) -> None:
    """While Redis is away the pass fails and no row is lost."""
    _age(unsent, 2)
    sweeper = Sweeper(unsent.engine, CeleryJobQueue("redis://127.0.0.1:1/0"))
    with pytest.raises(QueueUnavailable):
        sweeper.send_unsent()
    assert unsent.zone.scalar("SELECT count(*) FROM outbox") == 5


def test_two_relays_share_the_outbox(fleet: Fleet, waiting: Waiting) -> None:
    """Two sweepers at once send each of many messages once."""
    rows = MESSAGES_AT_ONCE * 2 + 7
    fleet.zone.change(
        "INSERT INTO outbox SELECT i, 'jobs.interactive', 'stop_virtual_machine', now() - interval '1 h'"
        " FROM generate_series(1, :rows) i",
        rows=rows,
    )
    _twice_at_once(fleet.sweeper().send_unsent)
    assert waiting() == Counter(range(1, rows + 1))


def test_messages_that_redis_lost_are_sent_again(fleet: Fleet, waiting: Waiting) -> None:
    """Jobs that are queued while their queue is empty are sent again: once, then not before some time."""
    fleet.deploy(5)
    waiting()
    fleet.sweeper().requeue_lost()
    assert fleet.zone.scalar("SELECT count(*) FROM outbox") == 0
    _age(fleet, LOST_AFTER_S + 1)
    for _ in range(2):
        fleet.sweeper().requeue_lost()
        fleet.sweeper().send_unsent()
    assert waiting() == Counter(_ids(fleet))


def test_messages_that_wait_their_turn_are_not_sent_again(fleet: Fleet, waiting: Waiting) -> None:
    """A long line is not a lost one: while its queue holds messages a job is left alone."""
    fleet.deploy(5)
    _age(fleet, LOST_AFTER_S + 1)
    fleet.sweeper().requeue_lost()
    fleet.sweeper().send_unsent()
    assert waiting() == Counter(_ids(fleet))


def test_jobs_of_dead_workers_are_sent_again(fleet: Fleet, waiting: Waiting) -> None:
    """A lease that ran out sends its job again, once, whoever of two sweepers sees it; a live one does not."""
    fleet.deploy(6)
    waiting()
    fleet.zone.change("UPDATE async_jobs SET phase = 'running', lease_fence = 1, attempts = 1, started = now()")
    first, *others = _ids(fleet)
    fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE id <> :id", id=first)
    fleet.zone.change("UPDATE async_jobs SET lease_until = now() + interval '1 h' WHERE id = :id", id=first)
    _twice_at_once(fleet.sweeper().requeue_dropped)
    fleet.sweeper().send_unsent()
    assert waiting() == Counter(others)
    assert fleet.job(first).phase == "running"


def test_waiting_jobs_are_sent_when_they_are_due(fleet: Fleet, waiting: Waiting) -> None:
    """A paused job comes back after its pause, and not while an earlier job of its VM is unfinished."""
    fleet.deploy(1)
    waiting()
    (deploy,) = _ids(fleet)
    stop = fleet.make_job(STOP, fleet.vms()[0].id)
    fleet.zone.change("DELETE FROM outbox")
    fleet.zone.change("UPDATE async_jobs SET phase = 'waiting', retry_at = now() - interval '1 s'")
    fleet.zone.change("UPDATE async_jobs SET retry_at = now() + interval '1 h' WHERE id = :id", id=deploy)
    fleet.sweeper().requeue_dropped()
    assert fleet.zone.scalar("SELECT count(*) FROM outbox") == 0
    fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE id = :id", id=deploy)
    fleet.sweeper().requeue_dropped()
    fleet.sweeper().send_unsent()
    assert waiting() == Counter([deploy])
    assert fleet.job(stop).phase == "waiting"


def test_a_job_that_began_and_does_not_end_is_ended(fleet: Fleet) -> None:
    """After ``job.cancel.threshold.minutes`` a waiting job is marked; the next worker cleans up and fails it."""
    fleet.deploy(1)
    fleet.fault(Step.BOOT, remaining=1)
    fleet.fault(Step.DELETE, remaining=1)
    fleet.run()
    fleet.sweeper().end_late()
    assert fleet.jobs()[0].phase == "waiting"
    _age(fleet, 3700)
    fleet.sweeper().end_late()
    assert (fleet.jobs()[0].phase, fleet.jobs()[0].progress["overdue"]) == ("queued", TOO_LATE)
    fleet.run()
    assert fleet.jobs()[0].status == JobStatus.FAILED
    fleet.assert_nothing_held()


def test_jobs_without_any_worker_fail_in_the_end(fleet: Fleet) -> None:
    """Where no job has moved for the threshold, jobs that never began fail and give everything back."""
    fleet.deploy(3)
    _age(fleet, 3700)
    _twice_at_once(fleet.sweeper().end_late)
    assert {job.status for job in fleet.jobs()} == {JobStatus.FAILED}
    assert all("never began" in result["errortext"] for result in fleet.results())
    assert {vm.state for vm in fleet.vms()} == {"Error"}
    fleet.assert_nothing_held()


def test_a_long_line_that_moves_is_not_stuck(fleet: Fleet) -> None:
    """Old jobs that never began wait on while any job was finished not long ago, or is under way."""
    fleet.deploy(3)
    _age(fleet, 3700)
    first = _ids(fleet)[0]
    fleet.run(first)
    fleet.sweeper().end_late()
    assert [job.status for job in fleet.jobs()] == [1, 0, 0]


def test_destroyed_vms_are_expunged_after_the_delay(fleet: Fleet) -> None:
    """``expunge.delay`` after it was destroyed a VM gets one job that expunges it, however many sweepers look."""
    fleet.deploy(2)
    fleet.run()
    fleet.run(fleet.make_job(DESTROY, fleet.vms()[0].id))
    fleet.sweeper().expunge_destroyed()
    assert len(fleet.jobs()) == 3
    fleet.zone.change("UPDATE virtual_machines SET updated = updated - interval '2 days'")
    _twice_at_once(fleet.sweeper().expunge_destroyed)
    assert len(fleet.jobs()) == 4
    job = fleet.jobs()[-1]
    assert (job.cmd.rsplit(".")[-1], job.account_id) == ("ExpungeVMCmd", fleet.vms()[0].account_id)
    assert fleet.system.job_queue.waiting()[INTERACTIVE] == 0
    fleet.run(job.id)
    assert fleet.vms()[0].removed is not None
    assert fleet.vms()[1].state == "Running"
    fleet.assert_intact()


def test_a_vm_that_another_sweeper_came_to_first_gets_no_second_job(fleet: Fleet) -> None:
    """The other one committed its job after this one began to look, and before it had the VM's lock."""
    fleet.deploy(1)
    fleet.run()
    fleet.run(fleet.make_job(DESTROY, fleet.vms()[0].id))
    fleet.zone.change("UPDATE virtual_machines SET updated = updated - interval '2 days'")
    columns = "cmd, account_id, user_id, instance_type, instance_id, instance_uuid, params"
    others = f"INSERT INTO async_jobs (kind, {columns}) SELECT 'of the other', {columns} FROM async_jobs"

    def come_first(_connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if "FOR UPDATE OF v " in statement:
            fleet.zone.change(f"{others} ORDER BY id LIMIT 1")

    event.listen(fleet.engine, "after_cursor_execute", come_first)
    fleet.sweeper().expunge_destroyed()
    event.remove(fleet.engine, "after_cursor_execute", come_first)
    assert [job.kind for job in fleet.jobs()] == [
        "deploy_virtual_machine",
        "destroy_virtual_machine",
        "of the other",
    ]


def test_a_removal_that_failed_is_tried_again(fleet: Fleet) -> None:
    """A VM left Expunging gets a new job some time after the last one failed, until it is gone."""
    fleet.deploy(1)
    fleet.run()
    fleet.fault(Step.DELETE)
    fleet.run(fleet.make_job(DESTROY, fleet.vms()[0].id, expunge=True))
    fleet.zone.change("UPDATE async_jobs SET retry_at = now(), progress = progress || '{\"overdue\": true}'")
    fleet.run()
    assert (fleet.jobs()[-1].status, fleet.vms()[0].state) == (JobStatus.FAILED, "Expunging")
    fleet.clear_faults()
    fleet.sweeper().expunge_destroyed()
    assert len(fleet.jobs()) == 2
    _age(fleet, 700)
    fleet.zone.change("UPDATE virtual_machines SET updated = updated - interval '700 s'")
    fleet.sweeper().expunge_destroyed()
    fleet.run()
    fleet.assert_nothing_held()


def test_old_jobs_are_deleted(fleet: Fleet) -> None:
    """``job.expire.minutes`` after it was finished a job is gone; unfinished ones stay however old."""
    fleet.deploy(3)
    fleet.run(*_ids(fleet)[:2])
    fleet.sweeper().expire()
    assert len(fleet.jobs()) == 3
    _age(fleet, 90_000)
    fleet.sweeper().expire()
    assert [job.status for job in fleet.jobs()] == [JobStatus.IN_PROGRESS]


def test_sessions_that_are_over_are_deleted(fleet: Fleet) -> None:
    """Expired sessions go, others stay."""
    for name, when in (("old", "- interval '1 s'"), ("new", "+ interval '1 h'")):
        fleet.zone.change(
            "INSERT INTO sessions (token_hash, session_key_hash, user_id, expires)"
            f" VALUES (:name, :name, :user, now() {when})",
            name=name.encode(),
            user=fleet.caller.user_id,
        )
    fleet.sweeper().expire()
    assert [bytes(row.token_hash) for row in fleet.zone.rows("SELECT token_hash FROM sessions")] == [b"new"]
