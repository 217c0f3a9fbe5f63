"""The shared steps of jobs for snapshots: they determine the snapshot of a job, and its VM or volume."""

from abc import abstractmethod
from dataclasses import replace
from uuid import UUID

from typing_extensions import override

from bulkdeploy.drivers.abilities.snapshots import SnapshotSpec
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import VmSteps
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, Failed, Outcome
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.virtual_machines.vm_snapshots import volume_of_snapshot


class SnapshotSteps(VmSteps):
    """The shared steps of jobs for snapshots. Parameters: ``snapshot_id``, ``snapshot_uuid`` and ``with_memory``.

    ``volume_uuid`` names the volume for the job's events. The steps read the volume from the snapshot's row,
    because jobs of the previous release do not name it.
    """

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return the outcome of a job that need not run, or None.

        If the job failed, its snapshot gets its final state, too.
        """
        refused = super().at_once(work)
        return replace(refused, final=self.kind.if_never_begun) if isinstance(refused, Failed) else refused

    @override
    def run(self, work: Assignment) -> Outcome:
        params = work.job.params
        with read_only(self.tools.engine) as connection:
            volume = volume_of_snapshot(connection, params["snapshot_id"])
        snapshot = SnapshotSpec(UUID(params["snapshot_uuid"]), bool(params["with_memory"]), volume)
        return self.change(work, snapshot) if snapshot.volumes_of(work.guest) else self.without_volume(work)

    @abstractmethod
    def change(self, work: Assignment, snapshot: SnapshotSpec) -> Outcome:
        """Create, revert to or delete the snapshot of a VM that still has the snapshot's volumes.

        Returns the outcome.
        """

    def without_volume(self, work: Assignment) -> Outcome:
        """Return the outcome of a job whose volume was deleted or was detached from the VM."""
        return self.failed(work, INTERNAL_ERROR, "it does not have the volume any more", self.kind.if_never_begun)
