"""The notes of a job for its later attempts: pauses, the failure to clean up after, and why the job must end."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.provisioning.assignment import Work
from bulkdeploy.provisioning.outcome import LeaseLost, Paused
from bulkdeploy.store.jobs.jobs import LeasedJob, write_progress

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0

PAUSES = "pauses"
FAILURE = "failure"
OVERDUE = "overdue"
LAST_TRIES = "last_tries"
"""Keys of a job's progress: pauses made, the failure being cleaned up after, why it must end now, and how
often it was tried since then."""

TOO_LATE = "it took longer than job.cancel.threshold.minutes"


def save_progress(
    connection: Connection, job: LeasedJob, progress: Mapping[str, Any], lease_seconds: float
) -> LeasedJob:
    """Write the notes for later attempts of a job, renew its lease, and return the updated job.

    Raises:
        LeaseLost: another worker has the job. The transaction must be rolled back.
    """
    if not write_progress(connection, job, progress, lease_seconds):
        raise LeaseLost(f"job {job.id} lost its lease before it could note how far it is")
    return replace(job, progress=progress)


def pause(work: Work, failure: DriverError | None) -> Paused:
    """Create a pause of the job. Each pause of the job is longer than the one before.

    ``failure`` is the error that the next attempt cleans up after. All other notes of the job are kept, including
    notes that were written after ``work`` was read.
    """
    made = int(work.job.progress.get(PAUSES, 0))
    progress: dict[str, Any] = {PAUSES: made + 1}
    if failure is not None:
        progress[FAILURE] = as_progress(failure)
    return Paused(min(FIRST_PAUSE_S * 2**made, LONGEST_PAUSE_S), progress)


def why_overdue(progress: Mapping[str, Any]) -> str:
    """Return the reason why a job with the note OVERDUE must end.

    The previous release noted no reason; for such a job a general text is returned.
    """
    why = progress[OVERDUE]
    return why if isinstance(why, str) else TOO_LATE


def as_progress(failure: DriverError) -> dict[str, Any]:
    """Return a driver's failure as a dictionary for the notes of a job."""
    return {
        "step": failure.step,
        "host": failure.host,
        "reason": failure.reason,
        "transient": failure.may_pass,
        "on_any_host": failure.on_any_host,
    }


def earlier_failure(progress: Mapping[str, Any]) -> DriverError | None:
    """Return the failure in the notes of a job that an earlier attempt could not clean up after, or None."""
    noted = progress.get(FAILURE)
    if noted is None:
        return None
    return DriverError(
        noted["step"],
        noted["host"],
        noted["reason"],
        transient=noted["transient"],
        on_any_host=noted.get("on_any_host", False),
    )


def noted_failure(work: Work, step: str, host: HostAddress | None) -> DriverError | None:
    """Return the reason to skip a step, or None if the step must run.

    The reason is the failure of an earlier attempt, or that the job is overdue.
    """
    failure = earlier_failure(work.job.progress)
    if failure is None and OVERDUE in work.job.progress:
        name = "no host" if host is None else host.name
        return DriverError(step, name, why_overdue(work.job.progress), transient=True)
    return failure


def is_tried_again(work: Work, failure: DriverError) -> bool:
    """Return whether a failed step is tried again later: the failure may pass, and the job is not overdue."""
    return failure.may_pass and OVERDUE not in work.job.progress
