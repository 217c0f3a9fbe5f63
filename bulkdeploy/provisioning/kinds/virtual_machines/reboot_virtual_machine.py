"""The job that reboots a VM on its host, or on another host if it does not start there.

A VM that could not be stopped keeps running. A VM that was stopped and could not be started becomes Stopped,
without a host. A worker that takes over the job stops and starts the VM again, even if the guest was started
already.

A VM of a volatile service offering is restored instead, as in CloudStack: it starts with a new root disk from its
template. If its root disk has snapshots, the job fails and the VM runs on. A guest that crashed keeps its disk.
"""

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import CRASHES, LEAVES_HOST, InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.failed_tries import AVOID
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.kinds.virtual_machines.restore_virtual_machine import (
    REMOVED,
    RESTORE_COMMIT,
    RestoreVirtualMachine,
)
from bulkdeploy.provisioning.outcome import RESOURCE_UNAVAILABLE, UNCHANGED, FinalState, Outcome
from bulkdeploy.provisioning.progress import FAILURE, OVERDUE
from bulkdeploy.provisioning.starting import STARTER_FAILPOINTS, starter_of_existing_vms
from bulkdeploy.provisioning.stopping import STILL_RUNNING, STOP_FAILPOINTS, not_stopped
from bulkdeploy.scheduling.vm_snapshots import find_snapshots_of_volumes, find_spoiled_snapshots
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.virtual_machines.virtual_machine_changes import is_volatile, root_disks_of


class RebootVirtualMachine(VmSteps):
    """The steps of a reboot.

    Parameters: ``forced`` powers the guest off without a shutdown; CRASHES and LEAVES_HOST are set if the guest
    crashed.
    """

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._starter = starter_of_existing_vms(kind, tools)
        self._restorer = RestoreVirtualMachine(kind, tools)

    @override
    def run(self, work: Assignment) -> Outcome:
        with read_only(self.tools.engine) as connection:
            volatile = CRASHES not in work.job.params and is_volatile(connection, work.vm_id)
            rule = _find_spoiled_snapshots(connection, work.vm_id) if volatile else None
        if not volatile:
            return self._stop_and_start(work)
        if rule is not None and REMOVED not in work.job.progress:
            return self.failed(work, RESOURCE_UNAVAILABLE, rule, STILL_RUNNING)
        return self._restorer.replace_root_disk(work, {})

    def _stop_and_start(self, work: Assignment) -> Outcome:
        leaves_host: DriverError | None = None
        if not work.job.progress.keys() & {FAILURE, AVOID, OVERDUE}:
            failure = self.tools.calls.stop(work, forced=bool(work.job.params.get("forced")))
            if failure is not None:
                return not_stopped(self, work, failure)
            if work.job.params.get(LEAVES_HOST) and work.host is not None:
                why = f"its guest crashed {work.job.params[CRASHES]} times within an hour"
                leaves_host = DriverError("boot", work.host.name, why, transient=True)
        return self._starter.run(work, pinned=False, leaves_host=leaves_host)


def _find_spoiled_snapshots(connection: Connection, vm_id: int) -> str | None:
    """Return the rule that keeps the root disk of a VM because of snapshots, or None if no rule keeps it."""
    disk = root_disks_of(connection, [vm_id]).get(vm_id)
    of_disk = {} if disk is None else find_snapshots_of_volumes(connection, [vm_id], [disk.id])
    return {**of_disk, **find_spoiled_snapshots(connection, [vm_id])}.get(vm_id)


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
    failpoints=STOP_FAILPOINTS | STARTER_FAILPOINTS | {Failpoint.DRIVER_DELETE, RESTORE_COMMIT},
    steps=RebootVirtualMachine,
)
