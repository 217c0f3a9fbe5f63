"""What several worker processes keep together: limits of driver calls, and jobs that kill whoever runs them."""

from pathlib import Path

import pytest

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.wiring.settings import Settings
from tests.support.hypervisors import watched_driver
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import Start, all_done, assert_all_run, consumers, slow_boots

pytestmark = pytest.mark.long


@pytest.fixture
def quick(fleet: Fleet, quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings under which every start is watched."""
    drivers = watched_driver.install(tmp_path, monkeypatch.setenv, fleet.control)
    options = {watched_driver.NAME: quick.driver["simulator"]}
    return quick.model_copy(update={"drivers": drivers, "driver": options})


def test_no_host_gets_more_than_its_limit(fleet: Fleet, redis_database_url: str, start: Start) -> None:
    """Two worker processes with threads to spare never start more than two VMs of a host at once.

    They do start two at once, each job is leased once, and each worker has its part.
    """
    fleet.set_value("driver.jobs.per.host.max", 2)
    slow_boots(fleet, 100)
    start(*SWEEPER)
    for _ in range(2):
        start(*WORKER)
    wait_for(lambda: consumers(redis_database_url) == 2)
    fleet.deploy(36, cluster="a-1")
    wait_for(lambda: all_done(fleet))
    assert set(watched_driver.most_at_once(fleet.control).values()) == {2}
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert len({job.lease_owner for job in fleet.jobs()}) == 2
    assert_all_run(fleet, 36)


def test_a_job_that_kills_its_worker_is_failed(fleet: Fleet, start: Start) -> None:
    """Three workers die of the same VM; the fourth only cleans up after it and says why.

    Those that were in the same processes each time are not failed with it.
    """
    fleet.set_value("job.lost.worker.max", 3)
    slow_boots(fleet, 200)
    fleet.deploy(4)
    deadly = fleet.jobs()[0]
    fleet.control.execute("INSERT INTO deadly_vms VALUES (%s, 'start')", [deadly.instance_uuid])
    start(*SWEEPER)
    for _ in range(3):
        assert start(*WORKER).wait(PATIENCE_S) != 0
        fleet.zone.change("UPDATE async_jobs SET lease_until = now() WHERE phase = 'running'")
    start(*WORKER)
    wait_for(lambda: all_done(fleet))
    assert [job.status for job in fleet.jobs()] == [JobStatus.FAILED, *[JobStatus.SUCCEEDED] * 3]
    assert "its worker ended abruptly 3 times" in fleet.results()[0]["errortext"]
    assert "job.lost.worker.max is 3" in fleet.results()[0]["errortext"]
    assert fleet.vms()[0].state == "Error"
    assert fleet.zone.scalar("SELECT count(*) FROM host_claims WHERE consumer = :vm", vm=deadly.instance_uuid) == 0
    assert deadly.instance_uuid not in fleet.guests()
    fleet.assert_intact()
