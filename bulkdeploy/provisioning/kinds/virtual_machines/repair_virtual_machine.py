"""The job that repairs a VM: it makes the guest match the VM's rows, on one host only.

The rows are authoritative, and the driver reports where the guest is. Each step may be repeated, so a worker that
takes over the job reads the state again and continues. While it is unknown which guests run, no guest is started.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.drivers.hosts import HostAddress, address_of
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.failed_tries import AVOID
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.outcome import (
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    UNCHANGED,
    Failed,
    FinalState,
    Outcome,
    Paused,
    Succeeded,
)
from bulkdeploy.provisioning.progress import FAILURE, OVERDUE, pause, why_overdue
from bulkdeploy.provisioning.starting import STARTER_FAILPOINTS, starter_of_existing_vms
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.infrastructure.host_migration import read_addresses

RUNS = FinalState(VmState.RUNNING)
"""Left of a VM that is to run, and of a VM that is not: its state is moved only where the job moved it."""


class RepairVirtualMachine(VmSteps):
    """The steps that repair a VM.

    With the parameter ``forced``, a guest that cannot be repaired while it runs is stopped and started.
    """

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._starter = starter_of_existing_vms(kind, tools)

    @override
    def run(self, work: Assignment) -> Outcome:
        if work.job.progress.keys() & {FAILURE, AVOID}:
            return self._starter.run(work, pinned=False)
        if OVERDUE in work.job.progress:
            return self.failed(work, RESOURCE_UNAVAILABLE, why_overdue(work.job.progress), _left(work))
        seen = self.tools.calls.find_copies(work)
        if isinstance(seen, DriverError):
            return self._again(work, seen)
        hosts = self._addresses(seen)
        unknown = [str(guest.host_uuid) for guest in seen if guest.host_uuid not in hosts]
        if unknown:
            why = (
                f"its guest is on host {', '.join(unknown)}, which is not a host of"
                " this service: remove the guest there by hand"
            )
            return self.failed(work, INTERNAL_ERROR, why, _left(work))
        if work.state is not VmState.STARTING:
            return self._end_all(work, [hosts[guest.host_uuid] for guest in seen])
        if work.host is None:
            why = "the VM has no host in the database: `bulkdeploy heal` repairs its rows"
            return self.failed(work, INTERNAL_ERROR, why, RUNS)
        return self._at_home(work, work.host, seen, hosts)

    def _end_all(self, work: Assignment, hosts: Sequence[HostAddress]) -> Outcome:
        """Stop all guests of a VM that should not run according to its row, and return the outcome."""
        for host in hosts:
            failure = self.tools.calls.stop(
                replace(work, host=host), forced=bool(work.job.params.get("forced"))
            ) and self.tools.calls.end_copy(work, host)
            if failure is not None:
                return self._again(work, failure)
        return Succeeded(UNCHANGED)

    def _end_copy(self, work: Assignment, host: HostAddress) -> DriverError | None:
        """Remove a copy of the guest from a host to which it does not belong, or power it off if that fails."""
        failure = self.tools.calls.end_copy(work, host)
        if failure is None or failure.may_pass:
            return failure
        return self.tools.calls.stop(replace(work, host=host), forced=True)

    def _at_home(
        self, work: Assignment, home: HostAddress, seen: Sequence[Guest], hosts: dict[UUID, HostAddress]
    ) -> Outcome:
        """Keep one running guest, stop the copies on other hosts, and return the outcome.

        A running guest on the VM's own host is preferred. A guest that runs elsewhere is migrated to that host.
        """
        running = [guest for guest in seen if guest.power is PowerState.RUNNING]
        kept = next((guest for guest in running if guest.host_uuid == home.uuid), next(iter(running), None))
        for guest in seen:
            if guest is not kept and guest.host_uuid != home.uuid:
                failure = self._end_copy(work, hosts[guest.host_uuid])
                if failure is not None:
                    return self._again(work, failure)
        if kept is None:
            return self._start(work)
        failure = None
        if kept.host_uuid != home.uuid:
            failure = self.tools.calls.migrate(work, hosts[kept.host_uuid], home)
        failure = failure or self._set_right(work, kept, had_copies=len(seen) > 1)
        if failure is None:
            return Succeeded(RUNS)
        if failure.may_pass or not work.job.params.get("forced"):
            return self._again(work, failure)
        elsewhere = kept.host_uuid != home.uuid
        if elsewhere:
            failure = self._end_copy(work, hosts[kept.host_uuid])
        else:
            failure = self.tools.calls.stop(work, forced=True)
        return self._again(work, failure) if failure is not None else self._start(work)

    def _set_right(self, work: Assignment, guest: Guest, *, had_copies: bool) -> DriverError | None:
        """Correct the size and the devices of the guest that runs on its host; return the error if that failed.

        If copies were stopped, the devices are always set again, because the stopped copy released the guest's
        resources at the driver.
        """
        spec, failure = work.guest, None
        if (guest.cpu_number, guest.cpu_mhz, guest.memory_mib) != (spec.cpu_number, spec.cpu_mhz, spec.memory_mib):
            failure = self.tools.calls.scale(work, spec)
        nics = {nic.uuid for nic in spec.nics}
        has_devices = guest.volume_uuids == {volume.uuid for volume in spec.volumes}
        if failure is None and (had_copies or not has_devices or guest.nic_uuids not in (None, nics)):
            failure = self.tools.calls.devices(work, spec)
        return failure

    def _start(self, work: Assignment) -> Outcome:
        """Start a guest that runs on no host, with its existing volumes.

        The job fails if a volume is missing in its pool: no volume is created again.
        """
        there = self.tools.calls.volumes_there(work)
        if isinstance(there, DriverError):
            return self._again(work, there)
        lost = [volume for volume in work.guest.volumes if volume.uuid not in there]
        if lost:
            named = ", ".join(f"{volume.name} ({volume.uuid})" for volume in lost)
            why = (
                f"its guest does not run, and its pools do not have volume {named}. restoreVirtualMachine makes a"
                " root disk anew from its template; a data volume comes from a backup, or is detached"
            )
            return self.failed(work, INTERNAL_ERROR, why, RUNS)
        return self._starter.run(work, pinned=False)

    def _again(self, work: Assignment, failure: DriverError) -> Paused | Failed:
        """Return a pause if the failure may pass and the job is not overdue, otherwise the failed outcome."""
        if failure.may_pass:
            return pause(work, None)
        way = "" if work.job.params.get("forced") else "; with forced=true it is stopped and started"
        return self.failed(work, INTERNAL_ERROR, f"{failure}{way}", _left(work))

    def _addresses(self, seen: Sequence[Guest]) -> dict[UUID, HostAddress]:
        if not seen:
            return {}
        with read_only(self.tools.engine) as connection:
            rows = read_addresses(connection, [guest.host_uuid for guest in seen])
        return {row.uuid: address_of(row) for row in rows}


def _left(work: Assignment) -> FinalState:
    """Return the final state: a VM whose row was Running before is Running again, and other VMs are unchanged."""
    return RUNS if work.state is VmState.STARTING else UNCHANGED


REPAIR = JobKind(
    name="repair_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.RepairVMCmd",
    event_type=EventType.VM_REPAIR,
    verb="repair",
    action="repairing",
    not_done="was not repaired",
    states=frozenset({VmState.RUNNING, VmState.STOPPED, VmState.DESTROYED, VmState.ERROR}),
    move=Move(frozenset({VmState.RUNNING}), VmState.STARTING),
    ability=None,
    spoils_snapshots=False,
    if_abandoned=FinalState(VmState.UNKNOWN),
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STARTER_FAILPOINTS
    | {
        Failpoint.DRIVER_LOOK,
        Failpoint.DRIVER_STOP,
        Failpoint.DRIVER_MIGRATE,
        Failpoint.DRIVER_SCALE,
        Failpoint.DRIVER_DEVICES,
    },
    steps=RepairVirtualMachine,
)
