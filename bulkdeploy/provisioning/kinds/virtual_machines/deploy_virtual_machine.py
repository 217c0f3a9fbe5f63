"""The job that starts one newly deployed VM, whose rows and claims exist already.

A deployment that fails finally releases everything that the VM has claimed; the VM remains visible in state Error
(cloudstack-protocol.md 5.2). If it is not certain that its guest was removed, the VM stays Expunging with its
claims, and the sweeper creates a job that removes it.
"""

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.outcome import UNCHANGED, FinalState, Outcome, Succeeded
from bulkdeploy.provisioning.starting import STARTER_FAILPOINTS, Starter
from bulkdeploy.scheduling.place import NoPlace
from bulkdeploy.scheduling.replace import move_claim
from bulkdeploy.store.jobs.jobs import LeasedJob
from bulkdeploy.store.ledger.release import release_vms

FAILED = FinalState(VmState.ERROR, release_vms)
START_VM = "startvm"


class DeployVirtualMachine(VmSteps):
    """The steps of deploying a VM. Parameters: with ``startvm`` false, the VM stays Stopped."""

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._starter = Starter(kind, tools, find_place=_move_claim, failed=FAILED, removes_volumes=True)

    @override
    def moves(self, job: LeasedJob) -> bool:
        return bool(job.params.get(START_VM, True))

    @override
    def at_once(self, work: Assignment) -> Outcome | None:
        if not work.job.params.get(START_VM, True):
            return Succeeded(UNCHANGED)
        return super().at_once(work)

    @override
    def run(self, work: Assignment) -> Outcome:
        return self._starter.run(work, pinned=work.pinned)


def _move_claim(connection: Connection, work: Assignment, avoid_host_ids: frozenset[int]) -> NoPlace | None:
    return move_claim(connection, work.vm_id, avoid_host_ids)


DEPLOY = JobKind(
    name="deploy_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.DeployVMCmdByAdmin",
    event_type=EventType.VM_CREATE,
    verb="deploy",
    action="deploying",
    not_done="was not deployed",
    states=frozenset({VmState.STOPPED}),
    move=Move(frozenset({VmState.STOPPED}), VmState.STARTING),
    ability=None,
    spoils_snapshots=False,
    if_abandoned=FinalState(VmState.EXPUNGING),
    if_never_begun=FAILED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STARTER_FAILPOINTS,
    steps=DeployVirtualMachine,
)
