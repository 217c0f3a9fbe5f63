"""Jobs in API responses: their state, duration and reason of failure.

Source: cloudstack-protocol.md 3. The field ``jobresult`` is an object. Some lists and some failures of other
servers contain a text instead.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

SUCCEEDED, FAILED = 1, 2
JOB_PAGE = 500
"""Jobs in one page: the most that servers give unless they are configured otherwise."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a batch's jobs; ``queued`` and ``running`` are None if the API does not distinguish them."""

    total: int
    succeeded: int
    failed: int
    queued: int | None = None
    running: int | None = None

    @property
    def done(self) -> int:
        """The number of jobs that have ended, successfully or not."""
        return self.succeeded + self.failed

    @property
    def finished(self) -> bool:
        """Return whether all jobs of the batch have ended."""
        return self.total > 0 and self.done >= self.total


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed job with its VM, error code and reason."""

    job_id: str
    vm_id: str
    code: int
    reason: str

    @property
    def cancelled(self) -> bool:
        """Return whether the job was cancelled. The API counts cancelled jobs as failed and names the reason."""
        return "cancelled" in self.reason.lower()

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Failure":
        """Return the failure that an entry of a deployment's response field ``failures`` describes."""
        return cls(
            job_id=str(row.get("jobid") or ""),
            vm_id=str(row.get("virtualmachineid") or ""),
            code=_number(row.get("errorcode")),
            reason=" ".join(str(row.get("errortext") or "no reason given").split()),
        )


def is_finished(job: Mapping[str, Any]) -> bool:
    """Return whether a job has succeeded or failed."""
    return _number(job.get("jobstatus")) != 0


def has_succeeded(job: Mapping[str, Any]) -> bool:
    """Return whether a job has succeeded."""
    return _number(job.get("jobstatus")) == SUCCEEDED


def result_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a job as a dict. A result that is plain text becomes the field ``errortext``."""
    result = job.get("jobresult")
    if isinstance(result, str):
        try:
            result = json.loads(result)
        except ValueError:
            return {"errortext": result} if result else {}
    return dict(result) if isinstance(result, Mapping) else {}


def failure_of(job: Mapping[str, Any]) -> Failure | None:
    """Return the failure of a finished job, or None if it did not fail."""
    if not is_finished(job) or has_succeeded(job):
        return None
    result = result_of(job)
    return Failure(
        job_id=str(job.get("jobid") or ""),
        vm_id=str(job.get("jobinstanceid") or ""),
        code=_number(result.get("errorcode", job.get("jobresultcode"))),
        reason=" ".join(str(result.get("errortext") or "no reason given").split()),
    )


def seconds_taken(job: Mapping[str, Any]) -> float | None:
    """Return the seconds from the call to the end of the job, or None if the API does not return the times."""
    created, completed = _moment(job.get("created")), _moment(job.get("completed"))
    return None if created is None or completed is None else (completed - created).total_seconds()


def virtual_machine_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the VM in a job's result, or an empty dict if there is none."""
    vm = result_of(job).get("virtualmachine")
    return dict(vm) if isinstance(vm, Mapping) else {}


def short_form(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the main facts of a finished job as one flat dict: its VM, or the reason of its failure."""
    vm, failure = virtual_machine_of(job), failure_of(job)
    nics: Sequence[Mapping[str, Any]] = vm.get("nic") or ({},)
    facts = {
        "jobid": job.get("jobid"),
        "jobstatus": job.get("jobstatus"),
        "jobinstanceid": job.get("jobinstanceid"),
        **{name: vm.get(name) for name in ("name", "state", "hostname", "password")},
        "ipaddress": vm.get("ipaddress") or nics[0].get("ipaddress"),
        **({} if failure is None else {"errorcode": failure.code, "errortext": failure.reason}),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _number(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0


def _moment(value: object) -> datetime | None:
    try:
        return datetime.strptime(str(value), "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return None
