"""What following costs the server: counted on the recorded server, with a clock turned by hand."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from bulkdeploy.cli.connection.profiles import Connection
from bulkdeploy.cli.connection.transport import Transport
from bulkdeploy.cli.deployments.following import Follower
from bulkdeploy.cli.deployments.jobs import JOB_PAGE
from bulkdeploy.cli.deployments.watching import Budget, DeploymentWatch, JobListWatch, Watch
from bulkdeploy.cli.output.screen import Screen
from tests.cli.recorded_jobs import Batch
from tests.cli.recorded_server import API_KEY, SECRET_KEY, RecordedServer, serving

JOBS = 10_000
LEAST_GAP = 0.5  # seconds between requests: with more, they are fewer than two a second


class HandClock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        """Seconds since some fixed moment."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds


@pytest.fixture
def clock() -> HandClock:
    """The clock of both the client and the server."""
    return HandClock()


@pytest.fixture
def server(clock: HandClock) -> Iterator[RecordedServer]:
    """A server with deployments whose jobs advance with the clock."""
    with serving(RecordedServer(clock=clock.now, deployments=True)) as recorded:
        yield recorded


@pytest.fixture
def transport(server: RecordedServer, clock: HandClock) -> Iterator[Transport]:
    """A connection to it."""
    transport = Transport(Connection("lab", server.url, API_KEY, SECRET_KEY), clock, lambda _: None)
    yield transport
    transport.close()


@pytest.fixture
def follower(transport: Transport, clock: HandClock) -> Follower:
    """Waits without end, quietly."""

    def once(command: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        return transport.call(command, parameters, attempts=1)

    return Follower(once, clock, Screen("json", quiet=True), timeout=None)


def start(server: RecordedServer, clock: HandClock, count: int, rate: float) -> Batch:
    """A batch whose jobs are done at this rate, of which two fail."""
    server.jobs.rate, server.jobs.failing = rate, {17, count - 1}
    return server.jobs.start(count, clock.now(), deployment=True)


def follow(follower: Follower, watch: Watch, count: int) -> None:
    """Follow to the end; all jobs are accounted for."""
    progress = follower.batch(watch)
    assert (progress.total, progress.succeeded, progress.failed) == (count, count - 2, 2)
    assert len(watch.jobs) == count


def gaps(server: RecordedServer) -> list[float]:
    """Seconds between requests."""
    return [later.when - earlier.when for earlier, later in pairwise(server.seen)]


@pytest.mark.parametrize("rate", [100.0, 10_000.0])
def test_following_a_deployment_costs_less_than_two_requests_a_second(
    server: RecordedServer, clock: HandClock, follower: Follower, rate: float
) -> None:
    """10,000 jobs of a deployment, slow or fast: never two requests within half a second, from start to end."""
    batch = start(server, clock, JOBS, rate)
    watch = DeploymentWatch(follower.call, Budget(clock), batch.deployment)
    follow(follower, watch, JOBS)
    assert min(gaps(server)) > LEAST_GAP
    assert {one.command for one in server.seen} == {"listBulkDeployments", "listAsyncJobs"}


def test_each_page_of_results_is_read_about_once(
    server: RecordedServer, clock: HandClock, follower: Follower
) -> None:
    """Results are read while the rest is under way: hardly a page twice, and few after the end."""
    batch = start(server, clock, JOBS, rate=100.0)
    follow(follower, DeploymentWatch(follower.call, Budget(clock), batch.deployment), JOBS)
    pages = server.requested("listAsyncJobs")
    assert len(pages) <= JOBS // JOB_PAGE + 2
    ended = batch.started + JOBS / batch.rate
    assert len([one for one in server.seen if one.when > ended + LEAST_GAP]) <= 4


@pytest.mark.parametrize("ids_are_known", [True, False])
def test_a_server_that_does_not_pick_jobs_is_not_trusted(
    server: RecordedServer, clock: HandClock, follower: Follower, ids_are_known: bool
) -> None:
    """Where ``deploymentid`` and ``id`` are ignored, jobs of others are not taken for the deployment's own."""
    server.ignored = {"deploymentid", "id"}
    server.jobs.rate = 1000.0
    others = [server.jobs.start(count, clock.now(), deployment=True) for count in (700, 0)]
    batch = start(server, clock, 1200, rate=400.0)
    others.append(server.jobs.start(900, clock.now(), deployment=True))
    ids = [batch.job_id(number) for number in range(1200)] if ids_are_known else []
    watch = DeploymentWatch(follower.call, Budget(clock), batch.deployment, ids)
    follow(follower, watch, 1200)
    assert {str(job["jobid"])[:8] for job in watch.jobs} == {batch.seed}
    assert min(gaps(server)) > LEAST_GAP


def test_following_jobs_of_another_server_costs_no_more(
    server: RecordedServer, clock: HandClock, follower: Follower
) -> None:
    """10,000 jobs of a server without deployments are watched in pages, with the same budget."""
    batch = start(server, clock, JOBS, rate=200.0)
    ids = [batch.job_id(number) for number in range(JOBS)]
    follow(follower, JobListWatch(follower.call, Budget(clock), ids, listed=True), JOBS)
    assert min(gaps(server)) > LEAST_GAP
    assert {one.command for one in server.seen} == {"listAsyncJobs"}


def test_jobs_that_lists_leave_out_are_polled_one_by_one(
    server: RecordedServer, clock: HandClock, follower: Follower
) -> None:
    """A server whose lists hold unfinished jobs only is followed to the end all the same."""
    server.jobs.hide_finished = True
    batch = start(server, clock, 60, rate=10.0)
    ids = [batch.job_id(number) for number in range(60)]
    follow(follower, JobListWatch(follower.call, Budget(clock), ids, listed=True), 60)
    assert min(gaps(server)) > LEAST_GAP


def test_one_by_one_keeps_the_budget_too(server: RecordedServer, clock: HandClock, follower: Follower) -> None:
    """Where jobs cannot be listed, they are asked for one by one, no faster."""
    batch = start(server, clock, 20, rate=3.0)
    ids = [batch.job_id(number) for number in range(20)]
    follow(follower, JobListWatch(follower.call, Budget(clock), ids, listed=False), 20)
    assert min(gaps(server)) > LEAST_GAP
    assert {one.command for one in server.seen} == {"queryAsyncJobResult"}


def test_a_failing_server_gets_fewer_requests(server: RecordedServer, clock: HandClock, follower: Follower) -> None:
    """While the server fails, it is asked at longer intervals, and the end is found all the same."""
    batch = start(server, clock, 40, rate=40.0)
    server.faults.extend([("listBulkDeployments", 503, "<html>restarting</html>")] * 20)
    follow(follower, DeploymentWatch(follower.call, Budget(clock), batch.deployment), 40)
    assert min(gaps(server)[:20]) >= 5


def test_one_job_is_polled_at_growing_intervals(
    server: RecordedServer, clock: HandClock, follower: Follower
) -> None:
    """A job that takes a minute costs some twenty requests."""
    server.jobs.rate = 1 / 60
    batch = server.jobs.start(1, clock.now())
    assert follower.job(batch.job_id(0), "job")["jobstatus"] == 1
    assert len(server.seen) < 30
    assert gaps(server) == sorted(gaps(server))
