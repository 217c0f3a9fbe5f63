"""What kinds of jobs about snapshots of VMs share: which snapshot it is, and when it is asked for no more."""

from dataclasses import replace
from uuid import UUID

from bulkdeploy.drivers.driver import DriverError, SnapshotSpec
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import VmSteps
from bulkdeploy.provisioning.outcome import Failed, Outcome
from bulkdeploy.provisioning.progress import OVERDUE, earlier_failure, why_overdue


class SnapshotSteps(VmSteps):
    """Params: ``snapshot_id``, ``snapshot_uuid``, ``with_memory``."""

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps. The snapshot is no longer at work either."""
        refused = super().at_once(work)
        return replace(refused, final=self.kind.if_never_begun) if isinstance(refused, Failed) else refused


def snapshot_of(work: Assignment) -> SnapshotSpec:
    """The snapshot that a job is about."""
    params = work.job.params
    return SnapshotSpec(UUID(params["snapshot_uuid"]), with_memory=bool(params["with_memory"]))


def noted_failure(work: Assignment, step: str) -> DriverError | None:
    """Why nothing is asked for any more: an earlier try failed, or time is up."""
    failure = earlier_failure(work.job.progress)
    if failure is None and OVERDUE in work.job.progress:
        host = "no host" if work.host is None else work.host.name
        return DriverError(step, host, why_overdue(work.job.progress), transient=True)
    return failure


def may_pass(work: Assignment, failure: DriverError) -> bool:
    """Whether it is worth asking again later."""
    return (failure.transient or failure.unanswered) and OVERDUE not in work.job.progress
