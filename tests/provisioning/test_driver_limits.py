"""Limits of what drivers have in hand: a job beyond its host's limit waits, nobody asks for it, and it is woken."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from redis import Redis

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.queue.job_queue import ALL_QUEUES, bulk_queue
from tests.support.hypervisors.blocking_drivers import GatedDriver
from tests.support.processes.messages import job_of, take_messages
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver


@pytest.fixture
def sent(fleet: Fleet, redis_database_url: str) -> Callable[[], list[int]]:
    """The ids of jobs whose messages wait in Redis; taking them away."""
    redis = Redis.from_url(redis_database_url)

    def take() -> list[int]:
        return [job_of(message) for queue in ALL_QUEUES for message in take_messages(redis, queue)]

    del fleet
    return take


def _limit(fleet: Fleet, scope: str, most: int) -> None:
    name = f"driver.jobs.per.{scope}.max"
    fleet.zone.change(
        "INSERT INTO configuration_values VALUES ('Global', 0, :name, :most)", name=name, most=str(most)
    )


def _on_one_host(fleet: Fleet, count: int) -> list[int]:
    """Ids of so many new jobs that all have their place on the same host."""
    host = fleet.zone.scalar("SELECT min(id) FROM hosts")
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE id <> :id", id=host)
    fleet.deploy(count)
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    return [job.id for job in fleet.jobs()]


def _sweep(fleet: Fleet) -> None:
    sweeper = fleet.sweeper()
    sweeper.requeue_dropped()
    sweeper.requeue_throttled()
    sweeper.requeue_lost()
    sweeper.send_unsent()


def test_a_job_beyond_the_limit_waits_and_is_woken(fleet: Fleet, sent: Callable[[], list[int]]) -> None:
    """Two jobs of one host, limit 1: the second waits unseen until the first ends, then its message is sent."""
    _limit(fleet, "host", 1)
    first, second = _on_one_host(fleet, 2)
    gated = GatedDriver(fleet.driver)
    with fleet.runner(drivers=OneDriver(gated)) as runner:
        runner.accept(first)
        assert gated.entered.wait(PATIENCE_S)
        sent()
        runner.accept(second)
        wait_for(lambda: fleet.job(second).phase == "waiting")
        fleet.zone.change("UPDATE async_jobs SET created = created - interval '2 h'")
        _sweep(fleet)
        assert sent() == []
        gated.gate.set()
    assert (fleet.job(second).attempts, fleet.job(second).phase) == (0, "queued")
    assert fleet.system.job_queue.waiting()[bulk_queue(2)] == 1
    assert sent() == [second]
    fleet.run(second)
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    fleet.assert_intact()


def test_the_place_of_a_dead_worker_is_given_to_the_next(fleet: Fleet, sent: Callable[[], list[int]]) -> None:
    """A lease that ran out holds no place: the sweeper wakes who waits for one."""
    _limit(fleet, "host", 1)
    first, second = _on_one_host(fleet, 2)
    fleet.zone.change(
        "UPDATE async_jobs SET phase = 'running', attempts = 1, lease_fence = 1,"
        " lease_until = now() + interval '1 h', started = now(),"
        " host_id = (SELECT min(id) FROM hosts) WHERE id = :id",
        id=first,
    )
    fleet.run(second)
    assert fleet.job(second).phase == "waiting"
    sent()
    _sweep(fleet)
    assert sent() == []
    fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE id = :id", id=first)
    _sweep(fleet)
    assert sorted(sent()) == [first, second]
    fleet.run(first)
    fleet.run(second)
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    fleet.assert_intact()


def test_a_raised_limit_wakes_who_waits(fleet: Fleet, sent: Callable[[], list[int]]) -> None:
    """A limit changed at run time holds from the next round of the sweeper on."""
    _limit(fleet, "host", 1)
    jobs = _on_one_host(fleet, 4)
    gated = GatedDriver(fleet.driver)
    with fleet.runner(drivers=OneDriver(gated)) as runner:
        for job_id in jobs:
            runner.accept(job_id)
        wait_for(lambda: [fleet.job(job_id).phase for job_id in jobs].count("waiting") == 3)
        sent()
        fleet.zone.change("UPDATE configuration_values SET value = '3' WHERE name = 'driver.jobs.per.host.max'")
        _sweep(fleet)
        assert len(sent()) == 2
        gated.gate.set()


def test_a_hypervisor_type_has_its_limit(fleet: Fleet) -> None:
    """With three jobs at once for all KVM hosts, of ten on different hosts three are leased."""
    _limit(fleet, "hypervisor", 3)
    fleet.deploy(10)
    gated = GatedDriver(fleet.driver)
    with fleet.runner(drivers=OneDriver(gated)) as runner:
        for job in fleet.jobs():
            runner.accept(job.id)
        wait_for(lambda: [job.phase for job in fleet.jobs()].count("waiting") == 7)
        gated.wait_for(3)
        assert gated.calls == 3
        gated.gate.set()
    while any(job.status == JobStatus.IN_PROGRESS for job in fleet.jobs()):
        _sweep(fleet)
        fleet.run()
    fleet.assert_intact()


def test_a_retry_elsewhere_waits_for_its_turn_there(fleet: Fleet) -> None:
    """A VM whose host failed is claimed on another one that has its hands full: it goes on there later."""
    _limit(fleet, "host", 1)
    first, second = fleet.zone.rows("SELECT id, name FROM hosts ORDER BY id LIMIT 2")
    for host in (first, second):
        fleet.zone.change(
            "UPDATE hosts SET resource_state = CASE id WHEN :id THEN 'Enabled' ELSE 'Disabled' END", id=host.id
        )
        fleet.deploy(1)
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled' WHERE id = :id", id=first.id)
    broken, busy = fleet.jobs()
    fleet.fault(Step.BOOT, host=first.name)
    gated = GatedDriver(fleet.driver)
    with fleet.runner(drivers=OneDriver(gated), options=replace(OPTIONS, threads=1)) as runner:
        runner.accept(busy.id)
        assert gated.entered.wait(PATIENCE_S)
        fleet.run(broken.id)
        waiting = fleet.job(broken.id)
        assert (waiting.status, waiting.phase, waiting.host_id) == (JobStatus.IN_PROGRESS, "waiting", None)
        assert fleet.vms()[0].host_id == fleet.vms()[1].host_id
        gated.gate.set()
    fleet.run(broken.id)
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    fleet.assert_intact()
