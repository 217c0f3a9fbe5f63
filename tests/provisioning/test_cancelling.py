"""Cancelling a deployment stops everything that has not begun, even what a worker already has in its hands."""

import time
from dataclasses import replace

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.provisioning.cancelling import FRESH_S
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.blocking_drivers import PATIENCE_S, GatedDriver
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver

THREADS = 2
LEASED = 2 * THREADS + 4


def test_leased_jobs_without_a_thread_are_stopped(fleet: Fleet, client: ApiClient) -> None:
    """Two drivers work, six jobs wait leased for them, more wait in the queue: only the two go on.

    The answer counts what no worker has as queued, and every queued one is stopped.
    """
    deployed = fleet.deploy(12)
    gated = GatedDriver(fleet.driver)
    jobs = [job.id for job in fleet.jobs()]
    with fleet.runner(drivers=OneDriver(gated), options=replace(OPTIONS, threads=THREADS)) as runner:
        for job_id in jobs[:LEASED]:
            runner.accept(job_id)
        wait_for(lambda: gated.calls == THREADS and sum(job.attempts for job in fleet.jobs()) == LEASED)
        row = client.call("cancelBulkDeployment", id=deployed.uuid)["bulkdeployment"]
        answered = time.monotonic()
        assert (row["state"], row["queued"], row["running"]) == ("Cancelled", len(jobs) - LEASED, LEASED)
        wait_for(lambda: time.monotonic() > answered + FRESH_S)
        gated.gate.set()
        for job_id in jobs[LEASED:]:
            runner.accept(job_id)
    assert gated.calls == THREADS
    ends = [job.status for job in fleet.jobs()]
    assert (ends.count(JobStatus.SUCCEEDED), ends.count(JobStatus.FAILED)) == (THREADS, len(jobs) - THREADS)
    failures = [result["errortext"] for result in fleet.results() if "errortext" in result]
    assert all("was cancelled before" in text for text in failures)
    assert len(fleet.guests()) == THREADS
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
