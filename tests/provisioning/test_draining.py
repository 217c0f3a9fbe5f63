"""A worker that is told to end: what it has begun it finishes, the rest others get at once."""

from dataclasses import replace

from bulkdeploy.domain.jobs import JobStatus
from tests.support.hypervisors.blocking_drivers import GatedDriver
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver

THREADS = 2
IN_HAND = 2 * THREADS + 4


def test_what_waits_for_a_thread_is_handed_back_at_once(fleet: Fleet) -> None:
    """While two drivers still work, the six leased jobs behind them are sent again and run by another worker.

    They count as never begun: one attempt and one Started event each.
    """
    deployed = fleet.deploy(IN_HAND)
    gated = GatedDriver(fleet.driver)
    queue_name = "jobs.bulk.0"
    with fleet.runner(drivers=OneDriver(gated), options=replace(OPTIONS, threads=THREADS)) as ending:
        for job in fleet.jobs():
            ending.accept(job.id)
        wait_for(lambda: gated.calls == THREADS and {job.phase for job in fleet.jobs()} == {"running"})
        sent_before = fleet.system.job_queue.waiting()[queue_name]
        ending.drain()
        wait_for(lambda: fleet.system.job_queue.waiting()[queue_name] == sent_before + IN_HAND - THREADS)
        waiting = [job.id for job in fleet.jobs() if job.phase == "queued"]
        assert len(waiting) == IN_HAND - THREADS
        assert fleet.zone.scalar("SELECT count(*) FROM outbox") == 0
        fleet.run(*waiting)
        assert len(fleet.guests()) == IN_HAND - THREADS
        gated.gate.set()
    assert [(job.status, job.attempts, job.lost_leases) for job in fleet.jobs()] == [
        (JobStatus.SUCCEEDED, 1, 0)
    ] * IN_HAND
    assert gated.calls == THREADS
    begun = fleet.zone.rows("SELECT resource_uuid FROM events WHERE state = 'Started'")
    assert sorted(str(row.resource_uuid) for row in begun) == sorted(deployed.vm_uuids)
    fleet.assert_intact()


def test_a_job_that_arrives_while_draining_is_handed_back(fleet: Fleet) -> None:
    """A message that was taken just before the signal is not lost: its job is sent again."""
    fleet.deploy(1)
    (job,) = fleet.jobs()
    with fleet.runner() as ending:
        ending.drain()
        ending.accept(job.id)
    assert (fleet.job(job.id).phase, fleet.job(job.id).attempts) == ("queued", 0)
    assert fleet.system.job_queue.waiting()["jobs.bulk.0"] == 2
    assert fleet.guests() == {}
    fleet.run(job.id)
    fleet.assert_intact()
