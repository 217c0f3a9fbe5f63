"""The job that scales a running VM up on its host: it claims capacity and limits, then grows the guest.

Claims, counts and the VM's sizes change in one transaction, which records the old sizes in the job's progress. A
guest that does not grow gets its old sizes again, and the additional claims are released when the job ends. If the
guest has grown in part and its hypervisor cannot shrink a running guest, growing is requested once more.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.errors import ResourceLimitExceeded
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, VmSteps
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
    OVERDUE,
    is_tried_again,
    noted_failure,
    pause,
    save_progress,
    why_overdue,
)
from bulkdeploy.scheduling.growth import why_not_grow
from bulkdeploy.scheduling.reasons import why_not
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.resource_counts import add_amounts, check_limits
from bulkdeploy.store.database.engine import TransactionConflict, run_transaction
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row, update_vm
from bulkdeploy.store.virtual_machines.virtual_machine_scaling import OLD, release_growth, resize_claim

COLUMNS = ("service_offering_id", "cpu_number", "cpu_mhz", "memory_mib", "details")
NOT_GROWN = FinalState(release=release_growth)
SCALE_COMMIT = "scale.commit"


class ScaleVirtualMachine(VmSteps):
    """The steps of scaling a running VM up. Parameters: the new values of the columns COLUMNS."""

    grown, not_grown = UNCHANGED, NOT_GROWN

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return the outcome if the VM's rows determine it, or None.

        A failure releases the claim of an earlier attempt.
        """
        refused = super().at_once(work)
        if not isinstance(refused, Failed):
            return refused
        return replace(refused, final=FinalState(release=self.not_grown.release))

    def run(self, work: Assignment) -> Outcome:
        """Claim the new sizes, then scale the guest.

        The claim is kept while the hypervisor cannot undo a failed change.

        If the hypervisor permanently rejects both the change and its undo, the job fails. A running VM then keeps
        the claimed capacity and the new sizes, which its guest gets at its next stop and start.
        """
        is_over = OVERDUE in work.job.progress
        if OLD not in work.job.progress:
            if is_over:
                return self.failed(work, RESOURCE_UNAVAILABLE, why_overdue(work.job.progress), self.not_grown)
            claimed = run_transaction(self.tools.engine, partial(self._grow, work=work), SCALE_COMMIT)
            if isinstance(claimed, Failed):
                return claimed
            work = claimed
        failure = noted_failure(work, "scale", work.host) or self.change(work)
        if failure is None:
            return Succeeded(self.grown)
        keep_lease(self.tools.engine, work.job, self.tools.lease_seconds)
        left = self.undo(work)
        if left is None or self._is_off(work, left):
            return self.failed(work, RESOURCE_UNAVAILABLE, str(failure), self.not_grown)
        return self._grow_again(work, failure, left) if not left.may_pass else pause(work, failure)

    def _grow_again(self, work: Assignment, failure: DriverError, left: DriverError) -> Outcome:
        """Grow the guest again after the hypervisor permanently rejected the return to the old sizes (``left``).

        Such hypervisors cannot shrink a running guest. Returns the outcome of the job.
        """
        keep_lease(self.tools.engine, work.job, self.tools.lease_seconds)
        again = self.change(work)
        if again is None:
            return Succeeded(self.grown)
        if is_tried_again(work, again):
            return pause(work, failure)
        runs = work.host is not None and self.tools.calls.state_on_host(work, work.host) is PowerState.RUNNING
        why = f"{again}; and undoing the change: {left}. The guest may be resized in part: stop and start the VM"
        return self.failed(work, RESOURCE_UNAVAILABLE, why, self.grown if runs else self.not_grown)

    def change(self, work: Assignment) -> DriverError | None:
        """Change the guest to the claimed sizes. Return None, or the error."""
        return self.tools.calls.scale(work, sized(work.guest, work.job.params))

    def undo(self, work: Assignment) -> DriverError | None:
        """Change the guest back to its old sizes, no matter how far it has grown. Return None, or the error."""
        return self.tools.calls.scale(work, sized(work.guest, work.job.progress[OLD]))

    def hosts_of(self, work: Assignment) -> list[HostAddress]:
        """Return the hosts on which the guest may be."""
        return [] if work.host is None else [work.host]

    def claim(self, connection: Connection, work: Assignment, row: Row[Any], reason: str | None) -> Failed | None:
        """Claim the new sizes on the VM's host.

        ``reason`` names the placement rule by which the host rejects the new sizes; then the job fails.

        Raises:
            TransactionConflict: a concurrent transaction changed the host; the whole transaction must be repeated.
        """
        if reason is not None:
            why = (
                f"its host cannot run it in this size; {why_not(reason)}. automigrate=true moves it to another host"
            )
            return self.failed(work, INSUFFICIENT_CAPACITY, why, self.not_grown)
        new = work.job.params
        cpu_mhz = new["cpu_number"] * new["cpu_mhz"]
        if not resize_claim(connection, row.uuid, cpu_mhz=cpu_mhz, memory_mib=new["memory_mib"]):
            raise TransactionConflict
        return None

    def _is_off(self, work: Assignment, left: DriverError) -> bool:
        """Return whether the error ``left`` is permanent and the guest runs on none of its hosts.

        A guest that does not run has no size that could be changed.
        """
        if left.may_pass:
            return False
        hosts = self.hosts_of(work)
        return bool(hosts) and all(
            self.tools.calls.state_on_host(work, host) in (None, PowerState.STOPPED) for host in hosts
        )

    def _grow(self, connection: Connection, *, work: Assignment) -> Assignment | Failed:
        """Claim, count and write the new sizes, and note the old sizes.

        Return the new assignment or the failure.
        """
        new, row = work.job.params, read_vm_row(connection, work.vm_id)
        if row.host_id is None:
            return self.failed(work, INTERNAL_ERROR, "it does not run any more", self.not_grown)
        if any(new[name] < getattr(row, name) for name in ("cpu_number", "cpu_mhz", "memory_mib")):
            return self.failed(
                work, INTERNAL_ERROR, "a running VM is only scaled up, and it has grown meanwhile", self.not_grown
            )
        owner = owners_by_id(connection, [row.account_id])[row.account_id]
        more = ResourceAmounts(
            cpu=new["cpu_number"] - row.cpu_number, memory_mib=new["memory_mib"] - row.memory_mib
        )
        try:
            check_limits(connection, owner, more)
        except ResourceLimitExceeded as error:
            return self.failed(work, LIMIT_EXCEEDED, str(error), self.not_grown)
        failed = self.claim(connection, work, row, why_not_grow(connection, work.vm_id, new))
        if failed is not None:
            return failed
        if more.by_type():
            add_amounts(connection, owner, more)
        update_vm(connection, row.id, {name: new[name] for name in COLUMNS})
        progress = {**work.job.progress, OLD: {name: getattr(row, name) for name in COLUMNS}}
        return read_assignment(connection, save_progress(connection, work.job, progress, self.tools.lease_seconds))


def sized(guest: GuestSpec, sizes: Mapping[str, Any]) -> GuestSpec:
    """Return a copy of the guest's specification with the sizes in these columns."""
    return replace(guest, cpu_number=sizes["cpu_number"], cpu_mhz=sizes["cpu_mhz"], memory_mib=sizes["memory_mib"])


SCALE = JobKind(
    name="scale_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.ScaleVMCmdByAdmin",
    event_type=EventType.VM_UPGRADE,
    verb="scale",
    action="scaling",
    not_done="was not scaled",
    states=frozenset({VmState.RUNNING}),
    move=None,
    ability=LiveScaling,
    spoils_snapshots=True,
    if_abandoned=NOT_GROWN,
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=frozenset({SCALE_COMMIT, Failpoint.DRIVER_SCALE, Failpoint.KEEP_COMMIT, Failpoint.DRIVER_LOOK}),
    steps=ScaleVirtualMachine,
)
