"""Cancelling a deployment cancels exactly the jobs that its answer counts as queued."""

from dataclasses import replace

from sqlalchemy import text

from bulkdeploy.domain.jobs import JobStatus
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.blocking_drivers import GatedDriver
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver

THREADS = 2
LEASED = 2 * THREADS + 4


def test_exactly_the_queued_jobs_are_cancelled(fleet: Fleet, client: ApiClient) -> None:
    """Two jobs call the driver and six are leased ahead: these eight succeed, the four that were queued fail."""
    deployed = fleet.deploy(12)
    gated = GatedDriver(fleet.driver)
    jobs = [job.id for job in fleet.jobs()]
    with fleet.runner(drivers=OneDriver(gated), options=replace(OPTIONS, threads=THREADS)) as runner:
        for job_id in jobs[:LEASED]:
            runner.accept(job_id)
        wait_for(lambda: gated.calls == THREADS and sum(job.attempts for job in fleet.jobs()) == LEASED)
        row = client.call("cancelBulkDeployment", id=deployed.uuid)["bulkdeployment"]
        assert (row["state"], row["queued"], row["running"]) == ("Cancelled", len(jobs) - LEASED, LEASED)
        gated.gate.set()
        for job_id in jobs[LEASED:]:
            runner.accept(job_id)
    assert [job.status for job in fleet.jobs()] == [JobStatus.SUCCEEDED] * row["running"] + [
        JobStatus.FAILED
    ] * row["queued"]
    failures = [result["errortext"] for result in fleet.results() if "errortext" in result]
    assert all("was cancelled before" in text for text in failures)
    assert len(fleet.guests()) == LEASED
    fleet.assert_intact()


def test_a_job_that_is_being_leased_is_not_counted_as_queued(fleet: Fleet, client: ApiClient) -> None:
    """A lease that is not committed yet does not delay the answer, and the answer counts its job as running."""
    deployed = fleet.deploy(3)
    first, *others = (job.id for job in fleet.jobs())
    with fleet.engine.begin() as worker:
        worker.execute(text("UPDATE async_jobs SET attempts = 1 WHERE id = :id"), {"id": first})
        row = client.call("cancelBulkDeployment", id=deployed.uuid)["bulkdeployment"]
        assert (row["queued"], row["running"]) == (2, 1)
    fleet.run(first, *others)
    assert [job.status for job in fleet.jobs()] == [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.FAILED]
    fleet.assert_intact()


def test_a_job_that_waits_to_be_tried_again_counts_as_running(fleet: Fleet, client: ApiClient) -> None:
    """A job whose worker died goes on after the cancellation, so the answer does not count it as queued."""
    deployed = fleet.deploy(2)
    gated = GatedDriver(fleet.driver)
    gated.gate.set()
    first, second = (job.id for job in fleet.jobs())
    fleet.zone.change("UPDATE async_jobs SET attempts = 1, lease_fence = 1 WHERE id = :id", id=first)
    row = client.call("cancelBulkDeployment", id=deployed.uuid)["bulkdeployment"]
    assert (row["queued"], row["running"]) == (1, 1)
    fleet.run(first, second, drivers=OneDriver(gated))
    assert [job.status for job in fleet.jobs()] == [JobStatus.SUCCEEDED, JobStatus.FAILED]
    assert gated.entered.wait(PATIENCE_S)
    fleet.assert_intact()
