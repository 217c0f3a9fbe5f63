"""Watching jobs at low cost for the server: one request at a time, at limited frequency.

A deployment is watched as a whole by ``listBulkDeployments``. Its finished jobs are read in pages, each about once.
Jobs of an API without this command are watched in pages of ``listAsyncJobs``. Jobs that these pages do not contain
are read individually.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bulkdeploy.cli.connection.clock import Clock
from bulkdeploy.cli.connection.entities import Caller, rows_of
from bulkdeploy.cli.deployments.jobs import JOB_PAGE, Failure, Progress, failure_of, is_finished
from bulkdeploy.cli.failures import UsageError

SPACING = 0.6  # seconds between requests: 1.7 requests a second at most
CLOSE_LOOK, CLOSE_LOOK_LASTS, FAR_LOOK = 1.0, 30.0, 2.0
ONE_BY_ONE = 20
MOST_PAGES = 200


class Budget:
    """A limit of the request rate: requests are sent at least ``SPACING`` seconds after each other."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.last = float("-inf")

    def turn(self, pause: float = SPACING) -> None:
        """Wait until the next request may be sent, which is ``pause`` seconds after the previous request."""
        wait = self.last + max(pause, SPACING) - self.clock.now()
        if wait > 0:
            self.clock.sleep(wait)
        self.last = self.clock.now()


class Watch(Protocol):
    """The interface of an object that reads the progress of a set of jobs until all have ended."""

    name: str
    """What ``bulkmonkey follow`` finds it by again; empty if it cannot."""
    budget: Budget
    """Lets its requests through, and those that belong to it."""

    def step(self) -> Progress:
        """Wait until a request is due, send it, and return the progress that is known afterwards."""
        ...

    def new_failures(self) -> list[Failure]:
        """Return failures that no earlier call returned."""
        ...

    def read_rest(self) -> Iterator[str]:
        """Read the details of finished jobs that are still missing. Yields a progress text before each request."""
        ...

    @property
    def jobs(self) -> list[Mapping[str, Any]]:
        """The finished jobs that have been read, in the API's format."""
        ...


@dataclass(slots=True)
class _Failures:
    """The failures of a batch, each reported once."""

    seen: set[str]
    fresh: list[Failure]

    def add(self, failure: Failure) -> None:
        if failure.job_id not in self.seen:
            self.seen.add(failure.job_id)
            self.fresh.append(failure)

    def take(self) -> list[Failure]:
        fresh, self.fresh = self.fresh, []
        return fresh


class DeploymentWatch:
    """A watch of a deployment, for an API that has ``listBulkDeployments``.

    Some servers ignore unknown parameters, so each response is checked to be about this deployment.
    """

    def __init__(self, call: Caller, budget: Budget, deployment_id: str, job_ids: Sequence[str] = ()) -> None:
        """Create the watch. ``job_ids`` are all jobs of the deployment, if they are known."""
        self.call, self.budget, self.name = call, budget, deployment_id
        self._ids = frozenset(job_ids)
        self._picked = True  # whether the server can list only this deployment's jobs
        self.row: Mapping[str, Any] = {}
        self.progress = Progress(total=0, succeeded=0, failed=0)
        self.began = budget.clock.now()
        self._failures = _Failures(set(), [])
        self._jobs: dict[str, Mapping[str, Any]] = {}
        self._unread: deque[int] = deque()
        self._pages = 0
        self._read_page_last = True

    def step(self) -> Progress:
        """Read the deployment, and between such reads pages of jobs that should all be finished.

        Returns the progress.
        """
        page = self._finished_page()
        if page is not None and not self._read_page_last:
            self.budget.turn()
            self._read_page(page)
            self._read_page_last = True
            return self.progress
        self._read_page_last = False
        near = self.budget.clock.now() - self.began < CLOSE_LOOK_LASTS
        self.budget.turn(SPACING if page is not None else CLOSE_LOOK if near else FAR_LOOK)
        rows = rows_of(self.call("listBulkDeployments", {"id": self.name, "listall": "true"}))
        row = next((row for row in rows if row.get("id") == self.name), None)
        if row is None:
            raise UsageError(f"there is no deployment {self.name}")
        self._take(row)
        return self.progress

    def new_failures(self) -> list[Failure]:
        """Return failures that no earlier call returned."""
        return self._failures.take()

    def read_rest(self) -> Iterator[str]:
        """Read the pages of jobs that are missing or contained unfinished jobs.

        Yields a progress text before each request. If the server cannot filter jobs by deployment, the pages of all
        jobs are read.
        """
        for page in (*self._unread, *range(self._pages + 1, self._last_page + 1)):
            if self._picked:
                yield f"page {page} of {self._last_page}"
                self.budget.turn()
                self._read_page(page)
        for page in range(1, MOST_PAGES + 1):
            if self._picked or len(self._jobs) >= self.progress.total:
                return
            yield f"page {page} of all jobs"
            self.budget.turn()
            if self._read_page(page) < JOB_PAGE:
                return

    @property
    def jobs(self) -> list[Mapping[str, Any]]:
        """The finished jobs that have been read."""
        return list(self._jobs.values())

    @property
    def _last_page(self) -> int:
        return -(-self.progress.total // JOB_PAGE)

    def _finished_page(self) -> int | None:
        """Return the number of the next page whose jobs should all be finished, or None."""
        page = self._pages + 1
        return page if self._picked and page * JOB_PAGE <= self.progress.done and page <= self._last_page else None

    def _read_page(self, page: int) -> int:
        """Read one page, store the finished jobs of this deployment, and return the number of jobs on the page."""
        requested = {"deploymentid": self.name, "listall": "true", "page": str(page), "pagesize": str(JOB_PAGE)}
        rows = rows_of(self.call("listAsyncJobs", requested))
        mine = [row for row in rows if self._is_mine(row)]
        self._picked = self._picked and len(mine) == len(rows)
        if page > self._pages:
            self._pages = page
            if not all(map(is_finished, rows)):
                self._unread.append(page)
        for row in filter(is_finished, mine):
            self._jobs[str(row.get("jobid"))] = row
            failure = failure_of(row)
            if failure is not None:
                self._failures.add(failure)
        return len(rows) if self._ids or any("deploymentid" in row for row in rows) else 0

    def _is_mine(self, row: Mapping[str, Any]) -> bool:
        return str(row.get("jobid")) in self._ids if self._ids else row.get("deploymentid") == self.name

    def _take(self, row: Mapping[str, Any]) -> None:
        self.row = row
        count = {
            name: int(row.get(name) or 0) for name in ("queued", "running", "succeeded", "failed", "cancelled")
        }
        self.progress = Progress(
            total=sum(count.values()),
            succeeded=count["succeeded"],
            failed=count["failed"] + count["cancelled"],
            queued=count["queued"],
            running=count["running"],
        )
        for failure in row.get("failures") or ():
            self._failures.add(Failure.of_row(failure))


class JobListWatch:
    """A watch of arbitrary jobs, for any API. ``listed`` is true if the API has ``listAsyncJobs``."""

    def __init__(
        self, call: Caller, budget: Budget, job_ids: Sequence[str], *, listed: bool, name: str = ""
    ) -> None:
        self.call, self.budget, self.listed, self.name = call, budget, listed, name
        self.open = dict.fromkeys(job_ids)
        self.total = len(self.open)
        self._failures = _Failures(set(), [])
        self._jobs: dict[str, Mapping[str, Any]] = {}
        self._page = 1
        self._seen: set[str] = set()
        self._one_by_one: deque[str] = deque() if listed else deque(self.open)

    def step(self) -> Progress:
        """Read the next page of jobs, or one job that the pages do not contain, and return the progress."""
        self.budget.turn(SPACING if self._page > 1 or self._one_by_one else CLOSE_LOOK)
        if self._one_by_one:
            self._request_one(self._one_by_one.popleft())
        elif self.open:
            self._request_page()
        if not self.listed and not self._one_by_one:
            self._one_by_one.extend(self.open)
        failed = len(self._failures.seen)
        return Progress(total=self.total, succeeded=len(self._jobs) - failed, failed=failed)

    def new_failures(self) -> list[Failure]:
        """Return failures that no earlier call returned."""
        return self._failures.take()

    def read_rest(self) -> Iterator[str]:
        """Return no further jobs: a job that is known to be finished has been read."""
        return iter(())

    @property
    def jobs(self) -> list[Mapping[str, Any]]:
        """The finished jobs, in the order in which they were read."""
        return list(self._jobs.values())

    def _request_one(self, job_id: str) -> None:
        if job_id in self.open:
            self._take({"jobid": job_id, **self.call("queryAsyncJobResult", {"jobid": job_id})})

    def _request_page(self) -> None:
        requested = {"listall": "true", "page": str(self._page), "pagesize": str(JOB_PAGE)}
        rows = rows_of(self.call("listAsyncJobs", requested))
        for row in rows:
            self._seen.add(str(row.get("jobid")))
            self._take(row)
        if len(rows) >= JOB_PAGE and not self._seen.issuperset(self.open):
            self._page += 1
            return
        # The list may leave out finished jobs, so the missing jobs are requested one by one.
        unseen = [job_id for job_id in self.open if job_id not in self._seen]
        self._one_by_one.extend(unseen[:ONE_BY_ONE])
        self._page, self._seen = 1, set()

    def _take(self, row: Mapping[str, Any]) -> None:
        job_id = str(row.get("jobid"))
        if job_id not in self.open or not is_finished(row):
            return
        del self.open[job_id]
        self._jobs[job_id] = row
        failure = failure_of(row)
        if failure is not None:
            self._failures.add(failure)
