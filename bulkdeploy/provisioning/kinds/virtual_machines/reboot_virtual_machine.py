"""The job that reboots a VM on its host, or on another host if it does not start there.

One that could not be stopped runs on. One that could be stopped and not started is Stopped, without a host. A
worker that takes over does both again: a guest that came up meanwhile goes down once more.
"""

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import CRASHES, LEAVES_HOST, InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.failed_tries import AVOID
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.outcome import UNCHANGED, FinalState, Outcome
from bulkdeploy.provisioning.progress import FAILURE, OVERDUE
from bulkdeploy.provisioning.starting import STARTER_FAILPOINTS, starter_of_existing_vms
from bulkdeploy.provisioning.stopping import STOP_FAILPOINTS, not_stopped


class RebootVirtualMachine(VmSteps):
    """The steps of a reboot.

    Params: ``forced`` cuts the power; CRASHES and LEAVES_HOST are set if the guest crashed.
    """

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._starter = starter_of_existing_vms(kind, tools)

    @override
    def run(self, work: Assignment) -> Outcome:
        leaves_host: DriverError | None = None
        if not work.job.progress.keys() & {FAILURE, AVOID, OVERDUE}:
            failure = self.tools.calls.stop(work, forced=bool(work.job.params.get("forced")))
            if failure is not None:
                return not_stopped(self, work, failure)
            if work.job.params.get(LEAVES_HOST) and work.host is not None:
                why = f"its guest crashed {work.job.params[CRASHES]} times within an hour"
                leaves_host = DriverError("boot", work.host.name, why, transient=True)
        return self._starter.run(work, pinned=False, leaves_host=leaves_host)


REBOOT = JobKind(
    name="reboot_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.RebootVMCmdByAdmin",
    event_type=EventType.VM_REBOOT,
    verb="reboot",
    action="rebooting",
    not_done="was not rebooted",
    states=frozenset({VmState.RUNNING}),
    move=Move(frozenset({VmState.RUNNING}), VmState.STARTING),
    ability=None,
    spoils_snapshots=False,
    if_abandoned=FinalState(VmState.UNKNOWN),
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STOP_FAILPOINTS | STARTER_FAILPOINTS,
    steps=RebootVirtualMachine,
)
