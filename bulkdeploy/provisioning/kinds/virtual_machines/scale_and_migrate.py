"""The job that scales a running VM up: on its host, or on another host after a live migration.

The destination is claimed with the new sizes while the migration has a claim on the source with the old sizes, so
both outcomes remain possible until it is known where the guest runs and how large it is. The guest migrates with
its old sizes, and grows after its arrival. After a failure, the guest gets its old sizes again and is migrated
back.

If one of the two hosts was declared off, the guest can only be on the other host, and the VM keeps its claim there.
If the guest is not there either, the VM becomes Stopped with its old sizes.
"""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAddress, address_of
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.driver_calls import DECLARED_OFF
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move
from bulkdeploy.provisioning.kinds.virtual_machines.scale_virtual_machine import (
    COLUMNS,
    SCALE_COMMIT,
    ScaleVirtualMachine,
    sized,
)
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    RESOURCE_UNAVAILABLE,
    UNCHANGED,
    Failed,
    FinalState,
    Outcome,
    Succeeded,
)
from bulkdeploy.provisioning.progress import pause
from bulkdeploy.scheduling.migrate import claim_destination, find_destination
from bulkdeploy.scheduling.place import NoPlace
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.virtual_machines.virtual_machine_changes import update_vm
from bulkdeploy.store.virtual_machines.virtual_machine_migration import read_sources, release_sources
from bulkdeploy.store.virtual_machines.virtual_machine_scaling import (
    OLD,
    release_growth_and_both_hosts,
    release_growth_and_move,
    release_growth_and_sources,
)

AS_BEFORE = FinalState(VmState.RUNNING, release_growth_and_move)
MOVED_ONLY = FinalState(VmState.RUNNING, release_growth_and_sources)
ENDED = FinalState(VmState.STOPPED, release_growth_and_both_hosts)


class ScaleAndMigrate(ScaleVirtualMachine):
    """The steps of scaling a running VM up, on another host if necessary. Params: those of ScaleVirtualMachine."""

    grown, not_grown = FinalState(VmState.RUNNING, release_sources), AS_BEFORE

    @override
    def run(self, work: Assignment) -> Outcome:
        source = self._source(work)
        off = work.off_hosts if source is None or not source.is_off else work.off_hosts | {source.uuid}
        if source is None:
            return super().run(work) if not off else self.failed(work, RESOURCE_UNAVAILABLE, DECLARED_OFF, ENDED)
        return self._settle(replace(work, off_hosts=off), address_of(source)) if off else super().run(work)

    def _settle(self, work: Assignment, source: HostAddress) -> Outcome:
        """End the job after one of its hosts was declared off: the guest runs on the other host or not at all."""
        arrived = work.is_off(source)
        here = replace(work, host=work.host if arrived else source)
        if here.host is None or here.host_is_off:
            return self.failed(work, RESOURCE_UNAVAILABLE, DECLARED_OFF, ENDED)
        seen = self.tools.calls.state_on_host(here, here.host)
        if isinstance(seen, DriverError) and seen.may_pass:
            return pause(work, None)
        if seen is not PowerState.RUNNING:
            why = f"{DECLARED_OFF}; it is not on host {here.host.name} either"
            return self.failed(work, RESOURCE_UNAVAILABLE, why, ENDED)
        if arrived and self.tools.calls.scale(here, sized(here.guest, work.job.params)) is None:
            return Succeeded(self.grown)
        left = self.tools.calls.scale(here, sized(here.guest, work.job.progress[OLD]))
        if left is not None and left.may_pass:
            return pause(work, None)
        if left is not None and arrived:
            return self.failed(work, RESOURCE_UNAVAILABLE, str(left), self.grown)
        return self.failed(work, RESOURCE_UNAVAILABLE, DECLARED_OFF, MOVED_ONLY if arrived else AS_BEFORE)

    def claim(self, connection: Connection, work: Assignment, row: Row[Any], reason: str | None) -> Failed | None:
        """Claim the new sizes on the VM's host, or on another host if its own host lacks capacity."""
        if reason is None:
            return super().claim(connection, work, row, reason)
        here = frozenset() if work.host_id is None else frozenset({work.host_id})
        attempt = connection.begin_nested()
        update_vm(connection, row.id, {name: work.job.params[name] for name in COLUMNS})
        place = find_destination(connection, row.id, host_id=None, avoid_host_ids=here)
        if isinstance(place, NoPlace):
            attempt.rollback()
            why = f"neither its host nor another host can run it in this size; {place.why}"
            return self.failed(work, INSUFFICIENT_CAPACITY, why, self.not_grown, place.excluded)
        claim_destination(connection, place, work.job.uuid)
        attempt.commit()
        return None

    @override
    def change(self, work: Assignment) -> DriverError | None:
        source = self._source_address(work)
        if source is not None and work.host is not None:
            moving = replace(work, guest=sized(work.guest, work.job.progress[OLD]))
            failure = self.tools.calls.migrate(moving, source, work.host)
            if failure is not None:
                return failure
        return super().change(work)

    def undo(self, work: Assignment) -> DriverError | None:
        """Restore the guest's old sizes, and migrate it back to its source.

        The guest always moves back with its old sizes, because its source has no capacity for the new sizes.
        """
        source = self._source_address(work)
        left = super().undo(work)
        if source is None or work.host is None:
            return left
        if left is not None and self._may_run_at(work, work.host):
            return left
        home = replace(work, host=source, guest=sized(work.guest, work.job.progress[OLD]))
        left = self.tools.calls.migrate(home, work.host, source)
        return super().undo(home) if left is None else left

    def _may_run_at(self, work: Assignment, host: HostAddress) -> bool:
        """Return whether the guest may be running on the host.

        Returns True if the host cannot be queried now, and False if the driver rejects the query.
        """
        seen = self.tools.calls.state_on_host(work, host)
        if isinstance(seen, DriverError):
            return seen.may_pass
        return seen is PowerState.RUNNING

    @override
    def hosts_of(self, work: Assignment) -> list[HostAddress]:
        source = self._source_address(work)
        return super().hosts_of(work) + ([] if source is None else [source])

    def _source(self, work: Assignment) -> Row[Any] | None:
        """Return the host that the VM leaves and still claims, or None if the VM does not migrate."""
        with read_only(self.tools.engine) as connection:
            return read_sources(connection, [work.job.uuid]).get(work.job.uuid)

    def _source_address(self, work: Assignment) -> HostAddress | None:
        row = self._source(work)
        return None if row is None else address_of(row)


SCALE_AND_MIGRATE = JobKind(
    name="scale_and_migrate",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.ScaleVMCmdByAdmin",
    event_type=EventType.VM_UPGRADE,
    verb="scale",
    action="scaling",
    not_done="was not scaled",
    states=frozenset({VmState.RUNNING}),
    move=Move(frozenset({VmState.RUNNING}), VmState.MIGRATING),
    ability=LiveScaling,
    spoils_snapshots=True,
    if_abandoned=FinalState(VmState.UNKNOWN, release_growth_and_move),
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=frozenset(
        {
            SCALE_COMMIT,
            Failpoint.DRIVER_MIGRATE,
            Failpoint.DRIVER_SCALE,
            Failpoint.KEEP_COMMIT,
            Failpoint.DRIVER_LOOK,
        }
    ),
    steps=ScaleAndMigrate,
)
