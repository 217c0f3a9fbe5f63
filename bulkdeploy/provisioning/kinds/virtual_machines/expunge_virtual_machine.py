"""The job that expunges a destroyed VM with its volumes. A VM that was recovered meanwhile is skipped."""

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.expunging import EXPUNGE_FAILPOINTS, STILL_THERE, expunge
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, VmSteps
from bulkdeploy.provisioning.outcome import UNCHANGED, Outcome


class ExpungeVirtualMachine(VmSteps):
    """The steps that expunge a VM. The job has no parameters."""

    @override
    def run(self, work: Assignment) -> Outcome:
        return expunge(self.tools.calls, work)


EXPUNGE = JobKind(
    name="expunge_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.ExpungeVMCmd",
    event_type=EventType.VM_EXPUNGE,
    verb="expunge",
    action="expunging",
    not_done="was not expunged",
    states=frozenset({VmState.DESTROYED, VmState.EXPUNGING, VmState.ERROR}),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=STILL_THERE,
    if_never_begun=UNCHANGED,
    result=JobResult.SUCCESS,
    failpoints=EXPUNGE_FAILPOINTS,
    steps=ExpungeVirtualMachine,
)
