"""One job, one runner: whoever else knows of it leaves, and whoever was too late is refused."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.processes.failpoints import Failpoint, arm
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import MIGRATE
from bulkdeploy.provisioning.kinds.virtual_machines.start_virtual_machine import START
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.queue.job_queue import INTERACTIVE
from tests.support.hypervisors.blocking_drivers import BrokenDriver, ForgetfulDriver, GatedDriver
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver
from tests.workers.processes import all_done, under_way


def test_a_message_that_arrives_often_is_one_run(fleet: Fleet) -> None:
    """The same job accepted again and again, by two runners, is leased once and deployed once."""
    fleet.deploy(4)
    gated = GatedDriver(fleet.driver)
    gated.gate.set()
    jobs = [job.id for job in fleet.jobs()]
    with fleet.runner(drivers=OneDriver(gated)) as one, fleet.runner(drivers=OneDriver(gated)) as other:
        for job in jobs * 5:
            one.accept(job)
            other.accept(job)
    assert gated.calls == 4
    assert [(job.status, job.attempts) for job in fleet.jobs()] == [(JobStatus.SUCCEEDED, 1)] * 4
    assert len(fleet.guests()) == 4
    fleet.assert_intact()


def test_a_running_job_is_not_taken_over(fleet: Fleet) -> None:
    """While its lease holds, a second runner leaves a job alone."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    gated = GatedDriver(fleet.driver)
    with fleet.runner(drivers=OneDriver(gated)) as slow:
        slow.accept(job.id)
        assert gated.entered.wait(PATIENCE_S)
        fleet.run(job.id)
        assert fleet.job(job.id).attempts == 1
        gated.gate.set()
    assert fleet.job(job.id).status == JobStatus.SUCCEEDED
    fleet.assert_intact()


def test_a_late_write_is_refused(fleet: Fleet) -> None:
    """A runner that comes back after its lease was taken over changes nothing: neither job nor VM."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    gated = GatedDriver(fleet.driver, before=False)
    with fleet.runner(drivers=OneDriver(gated)) as paused:
        paused.accept(job.id)
        assert gated.entered.wait(PATIENCE_S)
        fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s'")
        fleet.run(job.id)
        finished, vm = fleet.job(job.id), fleet.vms()[0]
        assert (finished.status, finished.attempts, finished.lease_fence) == (JobStatus.SUCCEEDED, 2, 2)
        gated.gate.set()
    assert fleet.job(job.id) == finished
    assert fleet.vms()[0] == vm
    fleet.assert_intact()


def test_jobs_that_one_runner_lost_and_got_again_end_once(fleet: Fleet) -> None:
    """A runner whose leases ran out is sent the same jobs again: both tries of each end at the same moment."""
    fleet.deploy(20)
    jobs = [job.id for job in fleet.jobs()]
    gated = GatedDriver(fleet.driver, before=False)
    with fleet.runner(drivers=OneDriver(gated), options=replace(OPTIONS, threads=40)) as paused:
        for _ in range(2):
            for job in jobs:
                paused.accept(job)
            gated.wait_for(calls=len(jobs))
            fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s'")
        gated.gate.set()
    assert [(job.status, job.attempts) for job in fleet.jobs()] == [(JobStatus.SUCCEEDED, 2)] * 20
    assert len(fleet.guests()) == 20
    fleet.assert_intact()


def test_a_late_call_is_refused_by_the_hypervisor(fleet: Fleet) -> None:
    """A paused runner that wakes up before its driver call is told by the hypervisor that it lost its lease."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    gated = GatedDriver(fleet.driver)
    with fleet.runner(drivers=OneDriver(gated)) as paused:
        paused.accept(job.id)
        assert gated.entered.wait(PATIENCE_S)
        fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s'")
        fleet.run(job.id)
        fleet.run(fleet.make_job(DESTROY, job.instance_id, expunge=True))
        assert fleet.guests() == {}
        gated.gate.set()
    assert fleet.guests() == {}
    fleet.assert_nothing_held()


@contextmanager
def asleep_after_its_lease() -> Iterator[Callable[[], None]]:
    """The first who takes a lease from now on waits until he is told to go on, as if his process slept."""
    began, go_on = Event(), Event()

    def wait(place: str) -> None:
        if place == f"{Failpoint.LEASE_COMMIT}.after" and not began.is_set():
            began.set()
            assert go_on.wait(PATIENCE_S)

    arm(wait)
    try:
        yield go_on.set
    finally:
        arm(None)
        go_on.set()


@pytest.mark.parametrize("kind", [START, MIGRATE])
def test_a_late_claim_is_a_lost_lease(fleet: Fleet, kind: JobKind) -> None:
    """A runner that claims what its job's new holder claimed before gets a line in its log, and no traceback."""
    fleet.deploy(1)
    fleet.run()
    vm = fleet.vms()[0].id
    if kind is START:
        fleet.run(fleet.make_job(STOP, vm))
    job = fleet.make_job(kind, vm)
    with capture_logs() as lines, asleep_after_its_lease() as wake, fleet.runner() as paused:
        paused.accept(job)
        wait_for(lambda: under_way(fleet) == 1)
        fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE status = 0")
        fleet.run(job)
        finished = fleet.job(job)
        wake()
    assert finished.status == JobStatus.SUCCEEDED
    assert fleet.job(job) == finished
    assert [line["event"] for line in lines if line["log_level"] != "info"] == ["lease_lost"]
    fleet.assert_intact()


def test_a_late_failure_removes_nothing(fleet: Fleet) -> None:
    """Even where the hypervisor compares no fences: who lost the lease does not remove his successor's guest."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    gated = GatedDriver(ForgetfulDriver(BrokenDriver(fleet.driver)))
    with fleet.runner(drivers=OneDriver(gated)) as paused:
        paused.accept(job.id)
        assert gated.entered.wait(PATIENCE_S)
        fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s'")
        fleet.run(job.id)
        gated.gate.set()
    assert len(fleet.guests()) == 1
    fleet.assert_intact()


def test_a_late_failure_gives_nothing_back(fleet: Fleet) -> None:
    """A runner whose try failed after its lease was taken over releases nothing of what the other one runs."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    gated = GatedDriver(BrokenDriver(fleet.driver))
    with fleet.runner(drivers=OneDriver(gated)) as paused:
        paused.accept(job.id)
        assert gated.entered.wait(PATIENCE_S)
        fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s'")
        fleet.run(job.id)
        gated.gate.set()
    assert [job.status for job in fleet.jobs()] == [JobStatus.SUCCEEDED]
    assert len(fleet.guests()) == 1
    fleet.assert_intact()


def test_leases_are_kept_while_drivers_take_their_time(fleet: Fleet) -> None:
    """A driver call longer than the lease loses nothing: the lease is renewed, and no sweeper takes the job."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    gated = GatedDriver(fleet.driver)
    options = replace(OPTIONS, lease_seconds=5.0)
    with fleet.runner(drivers=OneDriver(gated), options=options) as slow:
        slow.accept(job.id)
        assert gated.entered.wait(PATIENCE_S)
        first_end = fleet.job(job.id).lease_until
        while not fleet.zone.scalar("SELECT now() > :first_end", first_end=first_end):
            fleet.sweeper().requeue_dropped()
            time.sleep(0.1)
        gated.gate.set()
    assert (fleet.job(job.id).status, fleet.job(job.id).attempts) == (JobStatus.SUCCEEDED, 1)


def test_a_runner_that_writes_nothing_any_more_says_so(fleet: Fleet) -> None:
    """A batch that does not come further for some lease times is trouble, for as long as it lasts."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    with fleet.runner(options=replace(OPTIONS, lease_seconds=0.5)) as runner:
        with fleet.engine.begin() as rival:
            rival.execute(text("SELECT FROM async_jobs FOR UPDATE"))
            runner.accept(job.id)
            wait_for(lambda: runner.trouble() is not None)
            assert "were not written for" in str(runner.trouble())
        wait_for(lambda: all_done(fleet))
        assert runner.trouble() is None
    assert fleet.job(job.id).status == JobStatus.SUCCEEDED


def test_a_takeover_finishes_what_a_dead_worker_began(fleet: Fleet) -> None:
    """Whether the guest was made or not before its worker died, the next one ends with one guest each."""
    fleet.deploy(2)
    fleet.run(fleet.jobs()[0].id)
    assert len(fleet.guests()) == 1
    fleet.zone.change(
        "UPDATE async_jobs SET status = 0, phase = 'running', attempts = 1, started = now(), lease_fence = 1,"
        " lease_owner = 'dead', lease_until = now() - interval '1 s', result = NULL, completed = NULL"
    )
    fleet.zone.change("DELETE FROM events WHERE state = 'Completed'")
    fleet.zone.change("UPDATE virtual_machines SET state = 'Starting'")
    fleet.zone.change("UPDATE volumes SET state = 'Allocated'")
    fleet.run()
    assert [(job.status, job.attempts) for job in fleet.jobs()] == [(JobStatus.SUCCEEDED, 2)] * 2
    assert len(fleet.guests()) == 2
    fleet.assert_intact()


def test_jobs_of_one_vm_run_one_after_the_other(fleet: Fleet) -> None:
    """A job for a VM that another one works on waits, and is sent when that one ends."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    gated = GatedDriver(fleet.driver)
    with fleet.runner(drivers=OneDriver(gated)) as runner:
        runner.accept(job.id)
        assert gated.entered.wait(PATIENCE_S)
        stop = fleet.make_job(STOP, job.instance_id)
        fleet.zone.change("DELETE FROM outbox")
        fleet.run(stop)
        assert (fleet.job(stop).phase, fleet.job(stop).attempts) == ("waiting", 0)
        gated.gate.set()
    assert fleet.job(stop).phase == "queued"
    assert fleet.system.job_queue.waiting()[INTERACTIVE] == 1
    assert fleet.zone.scalar("SELECT count(*) FROM outbox") == 0
    fleet.run(stop)
    assert fleet.job(stop).status == JobStatus.SUCCEEDED
    assert fleet.vms()[0].state == "Stopped"
    fleet.assert_intact()


def test_a_defect_of_a_driver_is_a_failure(fleet: Fleet) -> None:
    """A driver that raises what it should not fails its job with that, and the VM holds nothing."""
    fleet.deploy(1)
    fleet.run(drivers=OneDriver(BrokenDriver(fleet.driver)))
    (result,) = fleet.results()
    assert result["errorcode"] == 534
    assert "ZeroDivisionError: a defect" in result["errortext"]
    fleet.assert_nothing_held()


def test_a_job_without_a_vm_fails_alone(fleet: Fleet) -> None:
    """A job whose VM is gone says so; the others of its batch are deployed."""
    fleet.deploy(3)
    gone = fleet.jobs()[1]
    fleet.zone.change("UPDATE async_jobs SET instance_id = 0 WHERE id = :id", id=gone.id)
    fleet.run()
    assert [job.status for job in fleet.jobs()] == [1, 2, 1]
    assert "no longer exists" in fleet.results()[1]["errortext"]


def test_closing_waits_for_what_was_accepted(fleet: Fleet) -> None:
    """A runner that is told to end finishes the jobs it has."""
    fleet.deploy(10)
    fleet.run()
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
