"""Evacuating a host that is dead: it is fenced, so that nothing runs on it any more, and its VMs start elsewhere.

Where the host watch asked for it, only VMs with high availability start; the others are Stopped like these.

The host is Down before that, so that no VM comes to it. Where its driver cannot fence, an operator has said that it
is off. Only then its VMs are Stopped, and in the same transaction jobs are made that start them. VMs that were
about to come up there when it was fenced are waited for: their jobs may not know yet that the guests are gone. Each
time the host's job runs it sees what is there: dying anywhere loses nothing, and fencing twice is fencing once.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.topology import HostResourceState
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.hosts import address_of
from bulkdeploy.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import PlaceWork
from bulkdeploy.provisioning.child_jobs import make_child_jobs, planned_host
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, JobSteps
from bulkdeploy.provisioning.kinds.start_virtual_machine import START
from bulkdeploy.provisioning.outcome import (
    RESOURCE_UNAVAILABLE,
    UNCHANGED,
    Failed,
    Outcome,
    Paused,
    Succeeded,
)
from bulkdeploy.provisioning.progress import OVERDUE, note, pause, why_overdue
from bulkdeploy.queue.job_queue import JobMessage
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.hypervisors.guest_fences import release_host
from bulkdeploy.store.hypervisors.watching import highly_available
from bulkdeploy.store.infrastructure.host_maintenance import count_moves, lock_vms_to_move, submitter_of
from bulkdeploy.store.infrastructure.host_migration import (
    read_address,
    set_fenced,
    vms_that_may_come_up,
    vms_to_evacuate,
)
from bulkdeploy.store.jobs.alerts import record_alerts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.ledger.release import release_hosts
from bulkdeploy.store.virtual_machines.guests import move_states

LOOK_AGAIN_S = 2.0
"""The end of a VM's job wakes the host's; this is the net below."""

EVACUATE_HOST_COMMIT = "evacuate_host.commit"
FENCED = "fenced"
"""Key of the job's progress: nothing runs on the host any more."""

BY_DRIVER = "by_driver"
"""Param of the job: whether its driver fences the host; else an operator has said that it is off."""

ONLY_HA = "only_ha"
"""Param of the job: only VMs with high availability are started elsewhere."""

MODE = "mode"
"""Param of the job, one of MODES: whose lost disks its result names."""

PRIMARY_ONLY, ALL = MODES = ("primary-only", "all")
"""The VMs that ran on the host; or also Stopped ones whose volumes are on its own disks."""

NAMED_VMS = 20
"""So many VMs does an alert name."""


class EvacuateHost(JobSteps[PlaceWork]):
    """Params: BY_DRIVER, ONLY_HA, MODE; PLANNED, where a plan is applied."""

    def run(self, work: PlaceWork) -> Outcome:
        """See JobSteps."""
        if FENCED not in work.job.progress:
            failure = self._fence(work) if work.job.params[BY_DRIVER] else None
            if failure is not None:
                return self._not_fenced(work, failure)
            fenced = partial(set_fenced, host_id=work.job.instance_id)
            run_transaction(self.tools.engine, fenced, EVACUATE_HOST_COMMIT)
        return run_transaction(self.tools.engine, partial(self._look, work=work), EVACUATE_HOST_COMMIT)

    def _not_fenced(self, work: PlaceWork, failure: DriverError) -> Outcome:
        if OVERDUE not in work.job.progress:
            return pause(work, None)
        what = (
            f"Host {work.name} could not be fenced, and its virtual machines were not started elsewhere: {failure}"
        )
        alert = partial(record_alerts, noticed=[Alert(AlertType.HOST, what)])
        run_transaction(self.tools.engine, alert, EVACUATE_HOST_COMMIT)
        return self.failed(work, RESOURCE_UNAVAILABLE, f"{failure}; {why_overdue(work.job.progress)}")

    def _fence(self, work: PlaceWork) -> DriverError | None:
        with read_only(self.tools.engine) as connection:
            row = read_address(connection, work.job.instance_id)
        return self.tools.calls.fence_host(address_of(row), work.names)

    def _look(self, connection: Connection, *, work: PlaceWork) -> Outcome:
        job = work.job
        release_host(connection, job.instance_id)  # guests whose claim was under way when the host was fenced
        coming = vms_that_may_come_up(connection, job.instance_id)  # first: what came up since is among those left
        left = vms_to_evacuate(connection, job.instance_id, job.id)
        moving = count_moves(connection, job.id)
        progress = {**job.progress, FENCED: True}
        note(connection, job, progress, self.tools.lease_seconds)
        if not (left or moving or coming):
            return Succeeded(UNCHANGED)
        if OVERDUE in job.progress:
            return self._not_done(work, len(left) + moving + coming)
        return Paused(LOOK_AGAIN_S, {}, _start_elsewhere(connection, work, left))

    def _not_done(self, work: PlaceWork, left: int) -> Failed:
        why = f"{why_overdue(work.job.progress)}; {left} VM(s) were not started elsewhere"
        return self.failed(work, RESOURCE_UNAVAILABLE, why)


def _start_elsewhere(connection: Connection, work: PlaceWork, vm_ids: list[int]) -> list[JobMessage]:
    """Stop these VMs, as far as rows say, and make jobs that start them; what is locked comes later."""
    locked = lock_vms_to_move(connection, vm_ids, len(vm_ids)) if vm_ids else []
    left = vms_to_evacuate(connection, work.job.instance_id, work.job.id) if locked else []
    vms = [vm for vm in locked if vm.id in left]  # not one that was stopped meanwhile
    if not vms:
        return []
    stopped = [vm.id for vm in vms]
    release_hosts(connection, stopped)
    move_states(connection, stopped, frozenset({VmState.RUNNING}), VmState.STOPPED)
    account_id = submitter_of(connection, work.job.id)
    if work.job.params.get(ONLY_HA):
        available = highly_available(connection, stopped)
        ended, vms = ([vm for vm in vms if (vm.id in available) is wanted] for wanted in (False, True))
        record_alerts(connection, _alerts(work.name, ended, vms))
    jobs = [
        START.new_job(
            Instance(START.instance_type, vm.id, vm.uuid),
            f"starting Vm {vm.instance_name} elsewhere: host {work.name} is down",
            account_id=account_id,
            user_id=work.job.user_id,
            params=planned_host(work.job.params, vm.id, "host_id"),
            parent_id=work.job.id,
        )
        for vm in vms
    ]
    return make_child_jobs(connection, jobs)


def _alerts(host: str, ended: Sequence[Row[Any]], started: Sequence[Row[Any]]) -> list[Alert]:
    texts = (
        (started, "are started on other hosts"),
        (ended, "are Stopped, for they have no high availability: startVirtualMachine starts them"),
    )
    return [
        Alert(AlertType.USER_VM, f"Host {host} is dead and fenced: {_named(vms)} {what}")
        for vms, what in texts
        if vms
    ]


def _named(vms: Sequence[Row[Any]]) -> str:
    names = ", ".join(vm.instance_name for vm in vms[:NAMED_VMS])
    more = f" and {len(vms) - NAMED_VMS} more" if len(vms) > NAMED_VMS else ""
    return f"{len(vms)} virtual machine(s) ({names}{more})"


EVACUATE_HOST = JobKind(
    name="evacuate_host",
    instance_type=InstanceType.HOST,
    command_class="org.apache.cloudstack.api.command.admin.host.EvacuateHostCmd",
    event_type=EventType.HOST_EVACUATE,
    verb="evacuate",
    action="evacuating",
    not_done="was not evacuated",
    states=frozenset(HostResourceState),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.HOST_MIGRATION,
    failpoints=frozenset({EVACUATE_HOST_COMMIT, Failpoint.DRIVER_FENCE}),
    steps=EvacuateHost,
)
