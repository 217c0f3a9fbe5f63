"""What kinds of jobs about snapshots share: which snapshot it is, and whether to try again."""

from dataclasses import replace
from uuid import UUID

from bulkdeploy.drivers.driver import DriverError, SnapshotSpec
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import VmSteps
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, Failed, Outcome
from bulkdeploy.provisioning.progress import OVERDUE


class SnapshotSteps(VmSteps):
    """Params: ``snapshot_id``, ``snapshot_uuid``, ``with_memory``; ``volume_uuid``: of this volume alone."""

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps. The snapshot is no longer at work either."""
        refused = super().at_once(work)
        if refused is None and not snapshot_of(work).volumes_of(work.guest):
            refused = self.without_volume(work)
        return replace(refused, final=self.kind.if_never_begun) if isinstance(refused, Failed) else refused

    def without_volume(self, work: Assignment) -> Outcome:
        """What becomes of a job whose volume is on no pool any more, or not the VM's."""
        return self.failed(work, INTERNAL_ERROR, "it does not have the volume any more")


def snapshot_of(work: Assignment) -> SnapshotSpec:
    """The snapshot that a job is about."""
    params = work.job.params
    volume = params.get("volume_uuid")
    return SnapshotSpec(
        UUID(params["snapshot_uuid"]), bool(params["with_memory"]), None if volume is None else UUID(volume)
    )


def may_pass(work: Assignment, failure: DriverError) -> bool:
    """Whether it is worth asking again later."""
    return failure.may_pass and OVERDUE not in work.job.progress
