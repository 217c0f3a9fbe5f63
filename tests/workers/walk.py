"""A fleet whose programs die at places that a test names, and what was promised to its clients meanwhile."""

import http.client
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bulkdeploy.domain.jobs import JobStatus
from tests.support.api.api_client import ApiClient
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import all_done

T = TypeVar("T")

VMS = 6


@dataclass
class Walk:
    """A fleet whose programs can be killed by name, and all that they answered."""

    fleet: Fleet
    directory: Path
    client: ApiClient
    answered: dict[str, list[str]] = field(default_factory=dict)
    """Job ids by request token."""

    def arm(self, place: str) -> None:
        """Let the next process that passes there die."""
        (self.directory / place).touch()

    def is_over(self, place: str) -> bool:
        """Whether somebody died there."""
        return not (self.directory / place).exists()

    def worker_died(self, place: str, within_s: float = PATIENCE_S) -> bool:
        """Wait until somebody has died there, or so long."""
        deadline = time.monotonic() + within_s
        while not self.is_over(place):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def bulk(self, token: str) -> list[str]:
        """Deploy VMS VMs with this token; their job ids, however often the connection breaks."""
        parameters = self.fleet.zone.bulk_parameters(VMS, requesttoken=token)
        answer = insist(lambda: self.client.call("bulkDeployVirtualMachine", **parameters))
        jobs = [job["jobid"] for job in answer["asyncjobs"]]
        assert self.answered.setdefault(token, jobs) == jobs
        return jobs

    def vm_ids(self, jobs: Sequence[str]) -> list[str]:
        """The VMs that these jobs deploy, in their order."""
        rows = self.fleet.zone.rows(
            "SELECT instance_uuid FROM async_jobs WHERE uuid = ANY(CAST(:jobs AS uuid[])) ORDER BY id",
            jobs=jobs,
        )
        return [str(row.instance_uuid) for row in rows]

    def assert_once_and_for_all(self) -> None:
        """Everything ends; each call made its VMs once, each job has one end, and nothing is amiss."""
        try:
            wait_for(lambda: all_done(self.fleet))
        except AssertionError as error:
            open_jobs = self.fleet.zone.rows("SELECT * FROM async_jobs WHERE status = 0 ORDER BY id")
            raise AssertionError("\n".join(map(str, open_jobs))) from error
        for token, jobs in self.answered.items():
            assert self.bulk(token) == jobs
            made = self.fleet.zone.scalar(
                "SELECT count(*) FROM async_jobs WHERE deployment_id = (SELECT id FROM deployments"
                " WHERE request_token = :token) AND kind = 'deploy_virtual_machine'",
                token=token,
            )
            assert made == len(jobs) == VMS
        ends = self.fleet.jobs()
        assert {job.status for job in ends} <= {JobStatus.SUCCEEDED, JobStatus.FAILED}
        self.fleet.assert_intact()
        assert self.fleet.jobs() == ends


def insist(call: Callable[[], T]) -> T:
    """Make a call again while its connection breaks."""
    for _ in range(5):
        try:
            return call()
        except (http.client.HTTPException, OSError):
            continue
    raise AssertionError("the connection broke again and again")
