"""Scaling a running VM up on its host: room and limits are claimed first, then the guest grows.

Claims, counts and the VM's sizes change in one transaction, which notes the old sizes in the job's progress. A
guest that does not grow gets its old sizes again, and what was claimed is given back with the end of the job.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.domain.errors import ResourceLimitExceeded
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError, GuestSpec, PowerState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    INTERNAL_ERROR,
    LIMIT_EXCEEDED,
    RESOURCE_UNAVAILABLE,
    Failed,
    GiveBack,
    LeaseLost,
    Outcome,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.steps import OVERDUE, Begin, earlier_failure, pause, why_overdue
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.jobs import LeasedJob, write_progress
from bulkdeploy.store.ledger import resize_claim
from bulkdeploy.store.owners import owners_by_id
from bulkdeploy.store.resource_counts import add_amounts, check_limits
from bulkdeploy.store.virtual_machine_changes import read_vm_row, update_vm
from bulkdeploy.store.virtual_machine_scaling import OLD

COLUMNS = ("service_offering_id", "cpu_number", "cpu_mhz", "memory_mib", "details")
NOT_GROWN = Settlement(give_back=GiveBack.GROWTH)


class ScaleVirtualMachine:
    """Steps of ``JobKind.SCALE``; params: the VM's new COLUMNS."""

    begin = Begin(EventType.VM_UPGRADE, "scaling Vm", frozenset(), VmState.RUNNING)

    def __init__(self, engine: Engine, calls: DriverCalls, lease_seconds: float) -> None:
        self._engine, self._calls, self._lease_seconds = engine, calls, lease_seconds

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps. It runs on."""
        del job
        return False

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps."""
        if work.state is VmState.RUNNING:
            return None
        return _failed(work, INTERNAL_ERROR, f"it is {work.state.value} and not Running")

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps. While a guest that did not grow can not be asked to go back, its growth stays claimed."""
        is_over = OVERDUE in work.job.progress
        if OLD not in work.job.progress:
            if is_over:
                return _failed(work, RESOURCE_UNAVAILABLE, why_overdue(work.job.progress))
            claimed = run_transaction(self._engine, partial(self._grow, work=work), CrashPoint.SCALE_COMMIT)
            if isinstance(claimed, Failed):
                return claimed
            work = claimed
        failure = earlier_failure(work.job.progress)
        if failure is None and is_over:
            host = "no host" if work.host is None else work.host.name
            failure = DriverError("scale", host, why_overdue(work.job.progress), transient=True)
        if failure is None:
            failure = self._calls.scale(work, _sized(work.guest, work.job.params))
        if failure is None:
            return Succeeded(Settlement())
        keep_lease(self._engine, work.job, self._lease_seconds)
        left = self._calls.scale(work, _sized(work.guest, work.job.progress[OLD]))
        if left is not None and not self._is_off(work, left):
            return pause(work, failure)
        return _failed(work, RESOURCE_UNAVAILABLE, str(failure))

    def _is_off(self, work: Assignment, left: DriverError) -> bool:
        """Whether going back was refused because the guest does not run any more: it has no size, then."""
        if left.transient or left.unanswered or work.host is None:
            return False
        return self._calls.look(work, work.host) in (None, PowerState.STOPPED)

    def _grow(self, connection: Connection, *, work: Assignment) -> Assignment | Failed:
        """Claim, count and write the new sizes, and note the old ones."""
        new, row = work.job.params, read_vm_row(connection, work.job.vm_id)
        if any(new[name] < getattr(row, name) for name in ("cpu_number", "cpu_mhz", "memory_mib")):
            return _failed(work, INTERNAL_ERROR, "a running VM is only scaled up, and it has grown meanwhile")
        owner = owners_by_id(connection, [row.account_id])[row.account_id]
        more = ResourceAmounts(
            cpu=new["cpu_number"] - row.cpu_number, memory_mib=new["memory_mib"] - row.memory_mib
        )
        try:
            check_limits(connection, owner, more)
        except ResourceLimitExceeded as error:
            return _failed(work, LIMIT_EXCEEDED, str(error))
        cpu_mhz = new["cpu_number"] * new["cpu_mhz"]
        if not resize_claim(connection, row.uuid, cpu_mhz=cpu_mhz, memory_mib=new["memory_mib"]):
            return _failed(work, INSUFFICIENT_CAPACITY, "its host has no room for it; migrate it to another first")
        if more.by_type():
            add_amounts(connection, owner, more)
        update_vm(connection, row.id, {name: new[name] for name in COLUMNS})
        progress = {**work.job.progress, OLD: {name: getattr(row, name) for name in COLUMNS}}
        if not write_progress(connection, work.job, progress, self._lease_seconds):
            raise LeaseLost(f"job {work.job.id} lost its lease while its VM was resized")
        return replace(work, job=replace(work.job, progress=progress))


def _sized(guest: GuestSpec, sizes: Any) -> GuestSpec:
    return replace(guest, cpu_number=sizes["cpu_number"], cpu_mhz=sizes["cpu_mhz"], memory_mib=sizes["memory_mib"])


def _failed(work: Assignment, code: int, why: str) -> Failed:
    return Failed(code, f"VM {work.name} was not scaled: {why}", NOT_GROWN)
