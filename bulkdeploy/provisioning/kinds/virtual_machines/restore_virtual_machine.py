"""The job that restores a VM: it deletes the root disk and creates a new root disk.

If the new root volume has another size or disk offering, or a template that requires another host tag, placement
chooses the host and the pool: the present ones if they are suitable, or others. A VM that ran before is started
again. If no host is suitable then, nothing is deleted.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    RESOURCE_UNAVAILABLE,
    UNCHANGED,
    FinalState,
    Outcome,
    Succeeded,
)
from bulkdeploy.provisioning.progress import OVERDUE, pause, save_progress
from bulkdeploy.provisioning.starting import STARTER_FAILPOINTS, starter_of_existing_vms
from bulkdeploy.provisioning.stopping import STILL_RUNNING, STOPPED
from bulkdeploy.scheduling.place import NoPlace, Place, plan_stopped_vm
from bulkdeploy.scheduling.replace import find_other_place, replace_place
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.ledger.release import release_hosts
from bulkdeploy.store.ledger.root_volumes import NewRootDisk, read_new_root_disk, replace_root_volume
from bulkdeploy.store.virtual_machines.virtual_machine_changes import root_volume_of

RESTORE_COMMIT = "restore.commit"
RESTORE_PLAN = "restore.plan"

FITS = "fits"
REMOVED = "root_removed"
NO_PLACE = "no_place"
"""Keys of the job's progress: a host suits the VM with its new disk; the old disk is gone, and rows say so; why the
VM got no place for its new disk after that."""


class RestoreVirtualMachine(VmSteps):
    """The steps of restoring a VM. Parameters: the fields of ``NewRootDisk``.

    If the old disk cannot be deleted, the job fails, and a VM that ran before is started again unchanged.
    """

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._starter = starter_of_existing_vms(kind, tools)

    @override
    def run(self, work: Assignment) -> Outcome:
        return self.replace_root_disk(work, work.job.params)

    def replace_root_disk(self, work: Assignment, differences: Mapping[str, Any]) -> Outcome:
        """Delete the root disk, create one with these differences of ``NewRootDisk``, and start a running VM."""
        with read_only(self.tools.engine) as connection:
            new = read_new_root_disk(connection, work.vm_id, **differences)
            root = root_volume_of(connection, work.vm_id)
        runs = work.state is VmState.STARTING
        if REMOVED not in work.job.progress:
            if runs and new.is_placed_anew and FITS not in work.job.progress:
                check = partial(self._check_place, work=work, new=new)
                checked = run_transaction(self.tools.engine, check, RESTORE_PLAN, during=self.tools.planning)
                if isinstance(checked, NoPlace):
                    return self._no_place(work, checked.why, STILL_RUNNING)
                work = checked
            failure = None if root is None else self.tools.calls.remove_volume(work, root)
            if failure is not None:
                return self._not_restored(work, failure)
            replace = partial(self._replace, work=work, new=new)
            work = run_transaction(self.tools.engine, replace, RESTORE_COMMIT, during=self.tools.planning)
        if not runs:
            return Succeeded(UNCHANGED)
        if NO_PLACE in work.job.progress:
            return self._no_place(work, work.job.progress[NO_PLACE], STOPPED)
        return self._starter.run(work, pinned=False)

    def _no_place(self, work: Assignment, why: str, final: FinalState) -> Outcome:
        text = f"Unable to create a deployment for VM instance {work.name}: {why}"
        return self.failed(work, INSUFFICIENT_CAPACITY, text, final)

    def _not_restored(self, work: Assignment, failure: DriverError) -> Outcome:
        if failure.transient and OVERDUE not in work.job.progress:
            return pause(work, None)
        final = UNCHANGED
        if work.state is VmState.STARTING:
            runs = self.tools.calls.run(work) is None
            final = FinalState(VmState.RUNNING) if runs else self.kind.if_abandoned
        return self.failed(work, RESOURCE_UNAVAILABLE, str(failure), final)

    def _check_place(self, connection: Connection, *, work: Assignment, new: NewRootDisk) -> Assignment | NoPlace:
        """Check that a host accepts the VM with its new disk.

        Returns the assignment after noting this in the job, or the reason why no host accepts the VM.
        """
        place = find_other_place(
            connection,
            work.vm_id,
            give_back=partial(_give_back, connection, work.vm_id, uuid4(), new),
            find=partial(_find, connection, work),
        )
        if isinstance(place, NoPlace):
            return place
        job = save_progress(connection, work.job, {FITS: True}, self.tools.lease_seconds)
        return read_assignment(connection, job)

    def _replace(self, connection: Connection, *, work: Assignment, new: NewRootDisk) -> Assignment:
        """Write the row of the new root volume, with a claimed host and pool if the VM must run.

        Returns the assignment.
        """
        volume_uuid = uuid4()
        progress: dict[str, object] = {REMOVED: True}
        if work.state is VmState.STARTING and new.is_placed_anew:
            problem = replace_place(
                connection,
                work.vm_id,
                give_back=partial(_give_back, connection, work.vm_id, volume_uuid, new),
                find=partial(_find, connection, work),
            )
            if problem is not None:
                progress[NO_PLACE] = problem.why
                replace_root_volume(connection, work.vm_id, volume_uuid, new)
        else:
            replace_root_volume(connection, work.vm_id, volume_uuid, new)
        job = save_progress(connection, work.job, progress, self.tools.lease_seconds)
        return read_assignment(connection, job)


def _give_back(connection: Connection, vm_id: int, volume_uuid: UUID, new: NewRootDisk) -> Sequence[UUID]:
    release_hosts(connection, [vm_id])
    return replace_root_volume(connection, vm_id, volume_uuid, new)


def _find(connection: Connection, work: Assignment) -> Place | NoPlace:
    return plan_stopped_vm(connection, work.vm_id, avoid_host_ids=frozenset(), first_host_id=work.host_id)


RESTORE = JobKind(
    name="restore_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.RestoreVMCmdByAdmin",
    event_type=EventType.VM_RESTORE,
    verb="restore",
    action="restoring",
    not_done="was not restored",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=Move(frozenset({VmState.RUNNING}), VmState.STARTING),
    ability=None,
    spoils_snapshots=True,
    if_abandoned=FinalState(VmState.UNKNOWN),
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STARTER_FAILPOINTS | {Failpoint.DRIVER_DELETE, RESTORE_PLAN, RESTORE_COMMIT},
    steps=RestoreVirtualMachine,
)
