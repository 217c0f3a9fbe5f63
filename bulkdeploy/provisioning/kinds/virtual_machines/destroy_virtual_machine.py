"""The job that destroys a VM: the VM is stopped and kept for ``expunge.delay``, or deleted with ``expunge``."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Row
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.expunging import EXPUNGE_FAILPOINTS, expunge
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, VmSteps
from bulkdeploy.provisioning.kinds.virtual_machines.expunge_virtual_machine import EXPUNGE
from bulkdeploy.provisioning.outcome import UNCHANGED, FinalState, Outcome, Succeeded
from bulkdeploy.provisioning.stopping import IF_IT_MAY_RUN, MAY_STILL_RUN, STOP_FAILPOINTS, not_stopped
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import NewJob
from bulkdeploy.store.ledger.release import release_compute

DESTROYED = FinalState(VmState.DESTROYED, release_compute)


class DestroyVirtualMachine(VmSteps):
    """The steps of destroying a VM.

    Parameters: ``expunge`` deletes the VM immediately; ``volume_ids`` are data volumes that are deleted with the
    VM.
    """

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return success for a VM that is destroyed already, unless it must be expunged.

        Otherwise None or a failure.
        """
        gone = work.state in (VmState.DESTROYED, VmState.EXPUNGING)
        return Succeeded(UNCHANGED) if gone and not work.job.params.get("expunge") else super().at_once(work)

    @override
    def run(self, work: Assignment) -> Outcome:
        if work.job.params.get("expunge"):
            outcome = expunge(self.tools.calls, work)
        else:
            failure = self.tools.calls.stop(work, forced=True)
            outcome = Succeeded(DESTROYED) if failure is None else not_stopped(self, work, failure)
        volumes = tuple(work.job.params.get("volume_ids", ()))
        if volumes and isinstance(outcome, Succeeded):
            return Succeeded(replace(outcome.final, deleted_volumes=volumes))
        return outcome


DESTROY = JobKind(
    name="destroy_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.DestroyVMCmdByAdmin",
    event_type=EventType.VM_DESTROY,
    verb="destroy",
    action="destroying",
    not_done="was not destroyed",
    states=frozenset(VmState),
    move=IF_IT_MAY_RUN,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=MAY_STILL_RUN,
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STOP_FAILPOINTS | EXPUNGE_FAILPOINTS,
    steps=DestroyVirtualMachine,
)


def expunge_in_any_state(vm: Row[Any], description: str, *, account_id: int, user_id: int) -> NewJob:
    """Return a job that expunges a locked VM in any state. Clients see it as a job of expungeVirtualMachine."""
    instance = Instance(DESTROY.instance_type, vm.id, vm.uuid)
    job = DESTROY.new_job(instance, description, account_id=account_id, user_id=user_id, params={"expunge": True})
    return replace(job, cmd=EXPUNGE.command_class)
