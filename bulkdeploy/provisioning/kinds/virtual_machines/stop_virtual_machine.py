"""The job that stops a VM: it removes the guest from its host, then releases the claim on the host.

If the hypervisor rejects the stop, the VM remains Running with its claim, even if the stop was forced.
"""

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, VmSteps
from bulkdeploy.provisioning.outcome import UNCHANGED, Outcome, Succeeded
from bulkdeploy.provisioning.stopping import IF_IT_MAY_RUN, MAY_STILL_RUN, STOP_FAILPOINTS, STOPPED, not_stopped


class StopVirtualMachine(VmSteps):
    """The steps of stopping a VM.

    Parameters: ``forced`` powers the guest off without a shutdown; GUEST_ENDED is set if the guest ended by itself.
    """

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return success for a VM that is stopped already.

        Otherwise None, or a failure if its state does not allow a stop.
        """
        return Succeeded(UNCHANGED) if work.state is VmState.STOPPED else super().at_once(work)

    @override
    def run(self, work: Assignment) -> Outcome:
        failure = self.tools.calls.stop(work, forced=bool(work.job.params.get("forced")))
        return Succeeded(STOPPED) if failure is None else not_stopped(self, work, failure)


STOP = JobKind(
    name="stop_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.StopVMCmdByAdmin",
    event_type=EventType.VM_STOP,
    verb="stop",
    action="stopping",
    not_done="was not stopped",
    states=frozenset({VmState.RUNNING, VmState.STOPPED, VmState.STOPPING, VmState.UNKNOWN}),
    move=IF_IT_MAY_RUN,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=MAY_STILL_RUN,
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STOP_FAILPOINTS,
    steps=StopVirtualMachine,
)
