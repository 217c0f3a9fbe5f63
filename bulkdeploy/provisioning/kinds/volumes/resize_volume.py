"""The job that resizes a volume: it grows while its guest runs, and shrinks while its guest is stopped.

If a volume grows, the capacity is claimed and counted before the hypervisor is called, and released if the volume
did not grow. If a volume shrinks, capacity is released after it has shrunk. After a failure the job reads the real
size of the volume. A volume is never shrunk to undo a growth.
"""

from dataclasses import asdict, replace
from functools import partial

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.errors import BulkDeployError, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import VolumeSpec
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import DEVICE_STATES, DeviceChange
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import RESOURCE_UNAVAILABLE, UNCHANGED, Outcome, Succeeded
from bulkdeploy.provisioning.progress import FAILURE, OVERDUE, noted_failure, save_progress, why_overdue
from bulkdeploy.scheduling.volume_resizing import VolumeSize, check_resizable, is_for_hypervisor, resize
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.volumes.volume_changes import take_volume

OLD = "old_size"
"""Key of a job's progress: the volume's size from before, while the hypervisor is to resize it."""

RESIZE_COMMIT, GIVE_BACK_COMMIT = "resize.commit", "give_back.commit"


class ResizeVolume(DeviceChange):
    """The steps of resizing a volume.

    Parameters: ``volume_id``, ``volume_uuid``, and the new ``size_bytes`` and ``disk_offering_id``.
    """

    @override
    def run(self, work: Assignment) -> Outcome:
        if OLD not in work.job.progress:
            if OVERDUE in work.job.progress:
                return self.failed(work, RESOURCE_UNAVAILABLE, why_overdue(work.job.progress))
            try:
                work = run_transaction(self.tools.engine, partial(self._begin, work=work), RESIZE_COMMIT)
            except BulkDeployError as refusal:
                return self._refused(work, refusal)
        volume = _on_pool(work)
        if OLD not in work.job.progress or volume is None:
            return Succeeded(UNCHANGED)
        old = VolumeSize(**work.job.progress[OLD])
        if volume.size_bytes > old.size_bytes and work.state is VmState.STOPPED:
            return Succeeded(UNCHANGED)
        return self._resize(work, volume, old)

    def _resize(self, work: Assignment, volume: VolumeSpec, old: VolumeSize) -> Outcome:
        """Resize the volume on the hypervisor, and write its real size into the rows if that fails.

        Return the outcome.
        """
        grows = volume.size_bytes > old.size_bytes
        failure = self._read_size(work, volume, grows=grows)
        if failure is not None:
            keep_lease(self.tools.engine, work.job, self.tools.lease_seconds)
            seen = self.tools.calls.size_of(work, volume)
            if isinstance(seen, DriverError):
                return self._left(work, failure, seen)
            if seen not in (None, volume.size_bytes):
                if grows:
                    self._write_size(work, old)
                return self.failed(work, RESOURCE_UNAVAILABLE, str(failure))
        if not grows:
            self._write_size(work, _requested_size(work))
        return Succeeded(UNCHANGED)

    def _begin(self, connection: Connection, *, work: Assignment) -> Assignment:
        """Write changes that need no hypervisor; otherwise claim the additional size and note the old size."""
        params, new = work.job.params, _requested_size(work)
        volume = take_volume(connection, params["volume_id"])
        if volume is None or volume.vm_id != work.vm_id:
            raise InvalidParameter("id", params["volume_uuid"], "the volume is no longer attached to the VM")
        check_resizable(volume, new, work.state)
        if not is_for_hypervisor(volume, new, work.state):
            resize(connection, volume, new)
            return work
        if new.size_bytes > volume.size_bytes:
            resize(connection, volume, new)
        return self._write(connection, work, OLD, asdict(VolumeSize.of(volume)))

    def _read_size(self, work: Assignment, volume: VolumeSpec, *, grows: bool) -> DriverError | None:
        """Resize the volume on the hypervisor. Return None, or the error.

        If an earlier attempt failed, its error is returned without a new call.
        """
        return noted_failure(work, "resize", work.host) or self.tools.calls.resize(work, volume, running=grows)

    def _write_size(self, work: Assignment, size: VolumeSize) -> None:
        """Release the storage capacity that the volume does not use. A later try of the job starts over."""
        run_transaction(self.tools.engine, partial(self._give_back, work=work, size=size), GIVE_BACK_COMMIT)

    def _give_back(self, connection: Connection, *, work: Assignment, size: VolumeSize) -> None:
        volume = take_volume(connection, work.job.params["volume_id"])
        if volume is not None:
            resize(connection, volume, size)
        progress = {name: value for name, value in work.job.progress.items() if name not in (OLD, FAILURE)}
        save_progress(connection, work.job, progress, self.tools.lease_seconds)


def _requested_size(work: Assignment) -> VolumeSize:
    return VolumeSize(work.job.params["size_bytes"], work.job.params["disk_offering_id"])


def _on_pool(work: Assignment) -> VolumeSpec | None:
    """Return the specification of the volume with its new size, or None if the volume is in no storage pool yet."""
    for volume in work.guest.volumes:
        if str(volume.uuid) == work.job.params["volume_uuid"]:
            return replace(volume, size_bytes=work.job.params["size_bytes"])
    return None


RESIZE_VOLUME = JobKind(
    name="resize_volume",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.volume.ResizeVolumeCmdByAdmin",
    event_type=EventType.VOLUME_RESIZE,
    verb="resize a volume of",
    action="resizing a volume of",
    not_done="did not get its volume resized",
    states=DEVICE_STATES,
    move=None,
    ability=GrowingVolumes,
    spoils_snapshots=True,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.VOLUME,
    failpoints=frozenset(
        {
            RESIZE_COMMIT,
            GIVE_BACK_COMMIT,
            Failpoint.DRIVER_RESIZE,
            Failpoint.KEEP_COMMIT,
            Failpoint.DRIVER_LOOK,
        }
    ),
    steps=ResizeVolume,
)
