"""The job that fences a dead host and starts its VMs on other hosts (one file: one job kind).

If the host watch created the job, only VMs with high availability are started; the other VMs only become Stopped.

The host is Down before the job begins, so that no VM is placed on it. A host with a management controller is
switched off, and the controller must report that the host is off. If neither a controller nor the driver can fence
the host, an operator has confirmed that the host is off. Only then its VMs become Stopped, and the same transaction
creates the jobs that start them.

The job notes every VM that has a claim on the host, which includes VMs that start there and VMs that migrate from
or to the host. The job wakes the jobs of these VMs and waits for them, because only such a job can find out whether
its guest runs on the other host of its migration. VMs that should run and are Stopped afterwards are started, too.
Each run of the job reads the rows again: if the worker dies, nothing is lost, and fencing a host twice has no
further effect.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row
from typing_extensions import override

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.jobs import FIRST_HOST, InstanceType, JobStatus
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import address_of
from bulkdeploy.power.driver import PowerError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import PlaceWork
from bulkdeploy.provisioning.child_jobs import make_child_jobs, planned_host
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, JobSteps
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.kinds.virtual_machines.start_virtual_machine import START
from bulkdeploy.provisioning.outcome import (
    RESOURCE_UNAVAILABLE,
    UNCHANGED,
    Failed,
    Outcome,
    Paused,
    Succeeded,
)
from bulkdeploy.provisioning.progress import OVERDUE, pause, save_progress, why_overdue
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.scheduling.moves import STARTING, VmMove, try_moves
from bulkdeploy.store.availability.out_of_band_management import read_used_bmc
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.hypervisors.guest_fences import release_host
from bulkdeploy.store.hypervisors.watching import ha_priorities, highly_available
from bulkdeploy.store.infrastructure.host_maintenance import (
    count_moves,
    lock_vms_to_move,
    submitter_of,
    wake_waiting,
)
from bulkdeploy.store.infrastructure.host_migration import (
    noted_vms,
    read_address,
    set_fenced,
    vms_holding_host,
)
from bulkdeploy.store.jobs.alerts import record_alerts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import LeasedJob
from bulkdeploy.store.ledger.release import release_hosts
from bulkdeploy.store.virtual_machines.guests import move_states

LOOK_AGAIN_S = 2.0
"""The end of a VM's job wakes the host's; this is the net below."""

FENCE_TIMEOUT = "kvm.ha.fence.timeout"
"""The setting with the seconds in which a host that is being fenced must be off."""

EVACUATE_HOST_COMMIT = "evacuate_host.commit"
FENCED = "fenced"
"""Key of the job's progress: nothing runs on the host any more."""

ALERTED = "alerted"
"""Key of the job's progress: an alert says that the host could not be fenced."""

INVOLVED = "involved"
"""Key of the job's progress: VMs that held anything on the host, by id: whether to start them (a Start), and the id
of the job that was under way, or None."""

BY_DRIVER = "by_driver"
"""Param of the job: whether its management controller or its driver fences the host; else an operator has said that
it is off."""

ONLY_HA = "only_ha"
"""Param of the job: only VMs with high availability are started elsewhere."""

MODE = "mode"
"""Param of the job, one of MODES: whose lost disks its result names."""

PRIMARY_ONLY, ALL = MODES = ("primary-only", "all")
"""The VMs that ran on the host; or also Stopped ones whose volumes are on its own disks."""

NAMED_VMS = 20
"""So many VMs does an alert name."""


class Start(StrEnum):
    """The condition under which an evacuation starts a VM that is Stopped after its job has ended."""

    ALWAYS = "always"
    AFTER_SUCCESS = "after_success"
    """The job was to start the VM: if the job failed, its caller knows, and the VM stays as the job left it."""
    NEVER = "never"


class EvacuateHost(JobSteps[PlaceWork]):
    """The steps of evacuating a host. Parameters: BY_DRIVER, ONLY_HA, MODE, and PLANNED if a plan is applied."""

    @override
    def run(self, work: PlaceWork) -> Outcome:
        if FENCED not in work.job.progress:
            failure = self._fence(work) if work.job.params[BY_DRIVER] else None
            if failure is not None:
                return self._not_fenced(work, failure)
            run_transaction(self.tools.engine, partial(self._declare_off, work=work), EVACUATE_HOST_COMMIT)
        return run_transaction(self.tools.engine, partial(self._look, work=work), EVACUATE_HOST_COMMIT)

    def _not_fenced(self, work: PlaceWork, failure: DriverError | PowerError) -> Outcome:
        """Return a pause, or the failure of the job if it is overdue. The first failure also raises an alert.

        No VM is started on another host.
        """
        if ALERTED not in work.job.progress:
            run_transaction(self.tools.engine, partial(self._alert, work=work, why=failure), EVACUATE_HOST_COMMIT)
        if OVERDUE not in work.job.progress:
            return pause(work, None)
        return self.failed(work, RESOURCE_UNAVAILABLE, f"{failure}; {why_overdue(work.job.progress)}")

    def _alert(self, connection: Connection, *, work: PlaceWork, why: DriverError | PowerError) -> None:
        what = (
            f"Host {work.name} could not be fenced, and its virtual machines are not started elsewhere: {why}."
            " Another try follows; if you cut its power by hand, disable its out-of-band management and call"
            " evacuateHost with force=true"
        )
        record_alerts(connection, [Alert(AlertType.HOST, what)])
        save_progress(connection, work.job, {**work.job.progress, ALERTED: True}, self.tools.lease_seconds)

    def _fence(self, work: PlaceWork) -> DriverError | PowerError | None:
        """Stop all guests on the host, by its management controller or driver. Return None, or the error.

        If the controller reports Off but the host answers, the controller belongs to another server, and an error
        is returned.
        """
        with read_only(self.tools.engine) as connection:
            row = read_address(connection, work.job.instance_id)
            bmc = read_used_bmc(connection, work.job.instance_id)
            configuration = read_configuration(connection)
        host = address_of(row)
        if bmc is None:
            return self.tools.calls.fence_host(host, work.names)
        timeout_s = float(configuration.number(FENCE_TIMEOUT, Scope.CLUSTER, bmc.cluster_id))
        failure = self.tools.power.ensure_off(bmc, timeout_s)
        if failure is not None:
            return failure
        if self.tools.calls.answers(host):
            where = f"{bmc.address}, port {bmc.port}"
            why = f"it reports Off, but the host answers: the controller at {where} may be that of another host"
            return PowerError(row.name, why)
        return self.tools.calls.declare_off(host, work.names)

    def _look(self, connection: Connection, *, work: PlaceWork) -> Outcome:
        job = work.job
        release_host(connection, job.instance_id)  # guests whose claim was under way when the host was fenced
        involved = _involved(connection, job)
        # before the VMs are read, so that VMs whose job ends meanwhile are among them
        waiting = _jobs_under_way(connection, job, involved)
        left = _to_start(connection, job, involved)
        moving = count_moves(connection, job.id)
        save_progress(connection, job, {**job.progress, FENCED: True, INVOLVED: involved}, self.tools.lease_seconds)
        if not (left or moving or waiting):
            return Succeeded(UNCHANGED)
        if OVERDUE in job.progress:
            return self._not_done(work, len(left) + moving + waiting)
        return Paused(LOOK_AGAIN_S, {}, _start_elsewhere(connection, work, involved, left, moving))

    def _declare_off(self, connection: Connection, *, work: PlaceWork) -> None:
        """Record that no guest runs on the host, and wake the jobs of VMs that have claims on the host.

        Without being woken, a job that is paused because the host does not answer would notice this only minutes
        later.
        """
        set_fenced(connection, work.job.instance_id)
        rows = vms_holding_host(connection, work.job.instance_id, work.job.id)
        wake_waiting(connection, {row.job_id for row in rows if row.job_id is not None}, INTERACTIVE)

    def _not_done(self, work: PlaceWork, left: int) -> Failed:
        why = f"{why_overdue(work.job.progress)}; {left} VM(s) were not started elsewhere"
        return self.failed(work, RESOURCE_UNAVAILABLE, why)


def _involved(connection: Connection, job: LeasedJob) -> dict[str, list[Any]]:
    """Return the VMs that the job noted under INVOLVED, extended by the VMs that have claims on the host now.

    The first note of a VM is kept unless the VM runs on the host by now.
    """
    involved: dict[str, list[Any]] = dict(job.progress.get(INVOLVED, {}))
    for row in vms_holding_host(connection, job.instance_id, job.id):
        start = _start_of(row)
        if str(row.id) not in involved or start is Start.ALWAYS:
            earlier = involved.get(str(row.id), (None, None))
            involved[str(row.id)] = [start.value, row.job_id or earlier[1]]
    return involved


def _start_of(vm: Row[Any]) -> Start:
    if vm.state in (VmState.RUNNING, VmState.UNKNOWN, VmState.MIGRATING):
        return Start.ALWAYS
    if vm.state != VmState.STARTING or vm.kind is None:
        return Start.NEVER
    move = job_kinds()[vm.kind].move
    return Start.ALWAYS if move is not None and VmState.RUNNING in move.sources else Start.AFTER_SUCCESS


def _jobs_by_vm(involved: Mapping[str, Sequence[Any]]) -> dict[int, int]:
    return {int(vm): noted_job or 0 for vm, (_, noted_job) in involved.items()}


def _jobs_under_way(connection: Connection, job: LeasedJob, involved: Mapping[str, Sequence[Any]]) -> int:
    """Return how many noted jobs have not ended. VMs that are Running on the host do not wait for their jobs."""
    vms = noted_vms(connection, _jobs_by_vm(involved), job.id)
    return sum(
        vm.job_status == JobStatus.IN_PROGRESS
        and not (vm.state == VmState.RUNNING and vm.host_id == job.instance_id)
        and not vm.has_child
        for vm in vms
    )


def _to_start(connection: Connection, job: LeasedJob, involved: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return the VMs that must be started: Running on the host according to their rows, or ended with the host.

    If the job starts only highly available VMs, other VMs that are Stopped already are omitted.
    """
    vms = [
        vm
        for vm in noted_vms(connection, _jobs_by_vm(involved), job.id)
        if not vm.has_child and _is_to_start(vm, job.instance_id, Start(involved[str(vm.id)][0]))
    ]
    if not job.params.get(ONLY_HA):
        return [vm.id for vm in vms]
    available = highly_available(connection, [vm.id for vm in vms])
    return [vm.id for vm in vms if vm.state == VmState.RUNNING or vm.id in available]


def _is_to_start(vm: Row[Any], host_id: int, start: Start) -> bool:
    if vm.host_id == host_id and vm.state == VmState.RUNNING:
        return True
    if vm.job_status == JobStatus.IN_PROGRESS:
        return False
    if vm.state == VmState.UNKNOWN:
        return vm.host_id in (None, host_id)
    if vm.state != VmState.STOPPED or vm.host_id is not None or vm.is_stopped_since:
        return False
    return start is Start.ALWAYS or (start is Start.AFTER_SUCCESS and vm.job_status == JobStatus.SUCCEEDED)


def _start_elsewhere(
    connection: Connection,
    work: PlaceWork,
    involved: Mapping[str, Sequence[Any]],
    vm_ids: list[int],
    moving: int,
) -> list[JobMessage]:
    """Mark these VMs as stopped and create the jobs that start them on other hosts. Locked VMs are skipped.

    VMs for which the plan finds no host wait until the others have started, so that they do not use capacity that
    the plan assigns to a VM of a higher priority. ``moving`` is the number of VMs whose start is already running.
    """
    locked = lock_vms_to_move(connection, vm_ids, len(vm_ids)) if vm_ids else []
    left = _to_start(connection, work.job, involved) if locked else []
    vms = [vm for vm in locked if vm.id in left]  # without VMs that were stopped meanwhile
    if not vms:
        return []
    stopped = [vm.id for vm in vms]
    hosts = _hosts_for(connection, work, stopped)
    release_hosts(connection, stopped)
    move_states(connection, stopped, frozenset({VmState.RUNNING, VmState.UNKNOWN}), VmState.STOPPED)
    priorities = ha_priorities(connection, stopped)
    vms.sort(key=lambda vm: (-priorities.get(vm.id, 0), vm.id))
    account_id = submitter_of(connection, work.job.id)
    ended: list[Row[Any]] = []
    if work.job.params.get(ONLY_HA):
        available = highly_available(connection, stopped)
        ended, vms = ([vm for vm in vms if (vm.id in available) is wanted] for wanted in (False, True))
    placed = [vm for vm in vms if hosts[vm.id]]
    if placed or moving:
        vms = placed
    if work.job.params.get(ONLY_HA):
        record_alerts(connection, _alerts(work.name, ended, vms))
    jobs = [
        START.new_job(
            Instance(START.instance_type, vm.id, vm.uuid),
            f"starting Vm {vm.instance_name} elsewhere: host {work.name} is down",
            account_id=account_id,
            user_id=work.job.user_id,
            params=hosts[vm.id],
            parent_id=work.job.id,
        )
        for vm in vms
    ]
    return make_child_jobs(connection, jobs)


def _hosts_for(connection: Connection, work: PlaceWork, vm_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return, for each VM, the job parameters that name its host: from the applied plan, or else planned now.

    All VMs are planned together while they still have their claims on the lost host, exactly as in a dry run. If a
    host that is planned now rejects the VM later, the start job tries other hosts.
    """
    params = {vm_id: planned_host(work.job.params, vm_id, "host_id") for vm_id in vm_ids}
    moves = [VmMove(vm_id, work.job.instance_id, planned.get("host_id")) for vm_id, planned in params.items()]
    for move in try_moves(connection, moves, STARTING):
        if not params[move.vm_id] and move.to_host_id is not None:
            params[move.vm_id] = {FIRST_HOST: move.to_host_id}
    return params


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
    failpoints=frozenset({EVACUATE_HOST_COMMIT, Failpoint.DRIVER_FENCE, Failpoint.POWER_ACTION}),
    steps=EvacuateHost,
)
