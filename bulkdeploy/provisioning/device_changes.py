"""Changes of the devices of a running VM, in its rows and in its guest, which survive the death of a process.

A new device is written into the VM's rows before its guest gets the device. A device that is removed stays in the
rows until the guest has lost it, so that no other VM gets it meanwhile. A failed change is undone by requesting the
opposite change; while the hypervisor does not answer, the job waits. If the change cannot be undone in time, the
device remains in the VM's rows. The audit then reports that the guest differs, and the next change of the VM's
devices, or its next start, corrects the guest.

For a VM that was stopped before its job began, only rows change.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.errors import (
    BulkDeployError,
    InsufficientAddresses,
    ParameterError,
    PermissionDenied,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.job_kind import VmSteps
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    INTERNAL_ERROR,
    LIMIT_EXCEEDED,
    RESOURCE_UNAVAILABLE,
    UNCHANGED,
    Failed,
    FinalState,
    Outcome,
    Succeeded,
)
from bulkdeploy.provisioning.progress import (
    FAILURE,
    OVERDUE,
    is_tried_again,
    noted_failure,
    pause,
    save_progress,
    why_overdue,
)
from bulkdeploy.store.database.engine import read_only, run_transaction

CLAIMED = "claimed"
"""Key of a job's progress: the device is in the VM's rows; what it was before."""

LOST = "lost"
"""Key of a job's progress: the device is in the VM's rows no more."""

DEVICE = "uuid"
"""Key of what was claimed: the device."""

AS_ROWS_SAY = FinalState(volumes_ready=True)

PLUG_COMMIT, UNPLUG_COMMIT = "plug.commit", "unplug.commit"
DEVICE_FAILPOINTS = frozenset({Failpoint.DRIVER_DEVICES, Failpoint.KEEP_COMMIT, UNPLUG_COMMIT})

DEVICE_STATES = frozenset({VmState.RUNNING, VmState.STOPPED})
"""Those in which devices can be changed."""

REFUSALS: Mapping[type[BulkDeployError], int] = {
    ParameterError: INTERNAL_ERROR,
    PermissionDenied: INTERNAL_ERROR,
    ResourceLimitExceeded: LIMIT_EXCEEDED,
    InsufficientAddresses: INSUFFICIENT_CAPACITY,
    ResourceUnavailable: RESOURCE_UNAVAILABLE,
}
"""Rules that what is asked for may break by now, and the ``errorcode`` of the job that finds it so."""


class DeviceChange(VmSteps):
    """The shared steps of kinds that attach and detach devices."""

    def _request(self, work: Assignment, wanted: GuestSpec) -> DriverError | None:
        """Request the change from the driver and return its error, or return the failure of an earlier attempt.

        After an earlier failure, the change is only undone.
        """
        return noted_failure(work, "devices", work.host) or self._change_guest(work, wanted)

    def _change_guest(self, work: Assignment, wanted: GuestSpec) -> DriverError | None:
        """Change the devices of the running guest to those of ``wanted``; return the error if that failed."""
        return self.tools.calls.devices(work, wanted)

    def _left(self, work: Assignment, failure: DriverError, left: DriverError) -> Outcome:
        """Return the outcome of a change that failed and was not undone.

        The job pauses and tries again if the error may pass and the job still has time. Otherwise the job fails.
        """
        if is_tried_again(work, left):
            return pause(work, failure)
        return self.failed(
            work, RESOURCE_UNAVAILABLE, f"{failure}. It is unknown which devices its guest has: {left}"
        )

    def _write(self, connection: Connection, work: Assignment, key: str, value: Any) -> Assignment:
        """Write ``key`` and ``value`` into the job's progress, and return the VM's current assignment.

        Raises:
            LeaseLost: another worker has the job. The transaction must be rolled back.
        """
        job = save_progress(connection, work.job, {**work.job.progress, key: value}, self.tools.lease_seconds)
        return read_assignment(connection, job)

    def _refused(self, work: Assignment, refusal: BulkDeployError) -> Failed:
        """Return the failure of a change that now violates a rule.

        Errors that are not in REFUSALS are raised again.
        """
        for kind, code in REFUSALS.items():
            if isinstance(refusal, kind):
                return self.failed(work, code, str(refusal))
        raise refusal


class GiveDevice(DeviceChange):
    """The steps of a job kind that adds a device to a VM: first in the rows, then in the guest."""

    @abstractmethod
    def claim(self, connection: Connection, work: Assignment) -> dict[str, Any]:
        """Write the device into the VM's rows, and return the data that ``undo_claim`` needs.

        The result contains the uuid of the device under the key DEVICE.

        Raises:
            BulkDeployError: an error of the classes in REFUSALS, if a rule forbids the change.
        """

    def changed_guest(self, work: Assignment, claimed: Mapping[str, Any]) -> GuestSpec:
        """Return the specification of the guest including the new device, for the driver call."""
        del claimed
        return work.guest

    def clean_up(self, work: Assignment, claimed: Mapping[str, Any]) -> DriverError | None:
        """Delete the objects that the hypervisor created for a device that the guest did not get.

        Kinds whose devices need no clean-up do not override this method; it does nothing and returns None.
        """
        del work, claimed
        return None

    def before(self, work: Assignment, claimed: Mapping[str, Any]) -> GuestSpec:
        """Return the guest's specification without the new device, for undoing the change."""
        return without(work.guest, UUID(claimed[DEVICE]))

    @abstractmethod
    def undo_claim(self, connection: Connection, work: Assignment, claimed: Mapping[str, Any]) -> None:
        """Restore the rows as they were before ``claim``."""

    @override
    def run(self, work: Assignment) -> Outcome:
        if CLAIMED not in work.job.progress:
            if OVERDUE in work.job.progress:
                return self.failed(work, RESOURCE_UNAVAILABLE, why_overdue(work.job.progress))
            try:
                work = run_transaction(self.tools.engine, partial(self._claim, work=work), PLUG_COMMIT)
            except BulkDeployError as refusal:
                return self._refused(work, refusal)
        if work.state is VmState.STOPPED:
            return Succeeded(UNCHANGED)
        claimed = work.job.progress[CLAIMED]
        failure = self._request(work, self.changed_guest(work, claimed))
        if failure is None:
            return Succeeded(AS_ROWS_SAY)
        keep_lease(self.tools.engine, work.job, self.tools.lease_seconds)
        left = self._change_guest(work, self.before(work, claimed))
        if left is None:
            left = self.clean_up(work, claimed)
        if left is not None:
            return self._left(work, failure, left)
        run_transaction(self.tools.engine, partial(self._undo_claim, work=work, claimed=claimed), UNPLUG_COMMIT)
        return self.failed(work, RESOURCE_UNAVAILABLE, str(failure))

    def _claim(self, connection: Connection, *, work: Assignment) -> Assignment:
        return self._write(connection, work, CLAIMED, self.claim(connection, work))

    def _undo_claim(self, connection: Connection, *, work: Assignment, claimed: Mapping[str, Any]) -> None:
        self.undo_claim(connection, work, claimed)
        job = work.job
        progress = {name: value for name, value in job.progress.items() if name not in (CLAIMED, FAILURE)}
        save_progress(connection, job, progress, self.tools.lease_seconds)


class TakeDevice(DeviceChange):
    """The steps of a job kind that removes a device from a VM: first from the guest, then from the rows."""

    @abstractmethod
    def device(self, work: Assignment) -> UUID:
        """Return the uuid of the device that the job removes."""

    @abstractmethod
    def check(self, connection: Connection, work: Assignment) -> None:
        """Check that the VM has the device and that the device may be removed.

        Raises:
            BulkDeployError: an error of the classes in REFUSALS, if a rule forbids the change.
        """

    @abstractmethod
    def take(self, connection: Connection, work: Assignment) -> None:
        """Remove the device from the VM's rows.

        Raises:
            BulkDeployError: under the same conditions as ``check``.
        """

    @override
    def run(self, work: Assignment) -> Outcome:
        if LOST not in work.job.progress:
            try:
                with read_only(self.tools.engine) as connection:
                    self.check(connection, work)
                kept = self._unplug(work) if work.state is VmState.RUNNING else None
                if kept is not None:
                    return kept
                run_transaction(self.tools.engine, partial(self._take, work=work), UNPLUG_COMMIT)
            except BulkDeployError as refusal:
                return self._refused(work, refusal)
        return Succeeded(AS_ROWS_SAY if work.state is VmState.RUNNING else UNCHANGED)

    def _unplug(self, work: Assignment) -> Outcome | None:
        """Remove the device from the guest. Return None, or the outcome of the job if that failed."""
        failure = self._request(work, without(work.guest, self.device(work)))
        if failure is None:
            return None
        keep_lease(self.tools.engine, work.job, self.tools.lease_seconds)
        left = self._change_guest(work, work.guest)
        if left is not None:
            return self._left(work, failure, left)
        return self.failed(work, RESOURCE_UNAVAILABLE, str(failure))

    def _take(self, connection: Connection, *, work: Assignment) -> None:
        self.take(connection, work)
        self._write(connection, work, LOST, True)


def without(guest: GuestSpec, device: UUID) -> GuestSpec:
    """Return a copy of the guest's specification without one of its volumes or NICs."""
    return replace(
        guest,
        volumes=tuple(volume for volume in guest.volumes if volume.uuid != device),
        nics=tuple(nic for nic in guest.nics if nic.uuid != device),
    )
