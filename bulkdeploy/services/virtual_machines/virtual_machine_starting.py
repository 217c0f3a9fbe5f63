"""Starting one or many stopped VMs: checked and planned here, executed by jobs."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.placement.model import Purpose
from bulkdeploy.provisioning.kinds.virtual_machines.start_virtual_machine import START
from bulkdeploy.scheduling.batch_moves import plan_together
from bulkdeploy.scheduling.moves import MoveKind, VmMove
from bulkdeploy.scheduling.place import NoPlace
from bulkdeploy.services.planned_moves import MovePlan, PlanWanted, plan_moves
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import find_unready, require_ready, submit
from bulkdeploy.services.virtual_machines.vm_work import (
    NO_HOST,
    ClaimedHosts,
    NoHostForVm,
    PreparedVms,
    VmJob,
    VmOperation,
)


def start_virtual_machine(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    *,
    pod_id: int | None = None,
    cluster_id: int | None = None,
    host_id: int | None = None,
    planner: str | None = None,
    consider_last_host: bool = False,
    plan: PlanWanted | None = None,
) -> JobTicket | MovePlan:
    """Create the job that starts a stopped VM, in a pod or cluster or on a host if given.

    The narrowest of pod, cluster and host applies. ``planner`` replaces the planner of the offering. If
    ``consider_last_host`` is true, the VM's last host is tried first. If ``plan`` requests a dry run, the planned
    move is returned instead of a job.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM cannot be started in its state, or was expunged; or under the same conditions as
            ``plan_moves``.
        PlanStale: under the same conditions as ``plan_moves``.
    """
    if plan is not None:
        row = require_ready(connection, system, caller, vm, START)
        way = MoveKind(
            Purpose.START, pod_id=pod_id, cluster_id=cluster_id, planner=planner, last_host_first=consider_last_host
        )
        shown = plan_moves(connection, caller, plan, [VmMove(vm.id, row.host_id, host_id)], way)
        if plan.dry_run:
            return shown
        host_id = shown.moves[0].to_host_id
    pins = {"host_id": host_id, "cluster_id": cluster_id, "pod_id": pod_id}
    params: dict[str, Any] = next(({name: pin} for name, pin in pins.items() if pin is not None), {})
    if planner is not None:
        params["planner"] = planner
    if consider_last_host:
        params["consider_last_host"] = True
    return submit(connection, system, caller, vm, START, params)


def start_operation() -> VmOperation:
    """Return the bulk operation that starts VMs on hosts that are planned together.

    The call claims these hosts for the VMs. If a VM does not start on its host, its job tries other hosts. For a VM
    with an unfinished job no host is claimed, because its needs are known only when this job ends.
    """
    return VmOperation.of_kind(START, _prepare_start, claims_hosts=True)


def _prepare_start(connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]]) -> PreparedVms:
    unready = find_unready(connection, system, vms, START)
    stopped = {vm.id: None for vm in vms if vm.id not in unready and not vm.has_job}
    plan = plan_together(connection, stopped, Purpose.START, to_claim=True)

    def work_of(vm: Row[Any]) -> VmJob:
        if vm.id in unready:
            raise InvalidParameter("id", str(vm.uuid), unready[vm.id])
        place = plan.hosts.get(vm.id)
        if isinstance(place, NoPlace):
            raise NoHostForVm(place.why if caller.is_root_admin else NO_HOST)
        return VmJob(START, host_id=place)

    placed = {vm.id: vm.uuid for vm in vms if isinstance(plan.hosts.get(vm.id), int)}
    return PreparedVms(work_of, hosts=ClaimedHosts(plan, placed))
