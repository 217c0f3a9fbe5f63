"""The migration of running VMs: requests are checked here, and jobs move the VMs. Lists possible hosts, too."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.placement.model import HostAnswer, Purpose
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import HOST, MIGRATE
from bulkdeploy.scheduling.batch_moves import plan_together
from bulkdeploy.scheduling.migrate import Destinations, find_destinations
from bulkdeploy.scheduling.moves import MIGRATING, VmMove
from bulkdeploy.scheduling.place import NoPlace
from bulkdeploy.scheduling.reasons import reason_fields
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.planned_moves import MovePlan, PlanWanted, plan_moves
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import find_unready, require_ready, submit
from bulkdeploy.services.virtual_machines.vm_work import ClaimedHosts, NoHostForVm, PreparedVms, VmJob, VmOperation
from bulkdeploy.store.deployments.deployment_facts import host_problem
from bulkdeploy.store.infrastructure.hosts import Places, Reach, hosts_outside, list_destinations
from bulkdeploy.store.ledger.ledger import ConsumerKind
from bulkdeploy.store.rows.listing import Page, Paging
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row

OF_VM = "virtualmachineid"


def migrate_virtual_machine(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    *,
    host: EntityRef | None,
    autoselect: bool,
    plan: PlanWanted | None = None,
) -> JobTicket | MovePlan:
    """Create the job that moves a running VM to ``host``, or with ``autoselect`` to a host that placement selects.

    Raises:
        InvalidCombination: neither ``host`` nor ``autoselect`` is given.
        InvalidParameter: the VM does not run, its hypervisor does not support migration, or the host is its present
            host or accepts no VMs; or under the same conditions as ``plan_moves``.
        PermissionDenied: the caller may not access the VM.
        PlanStale: under the same conditions as ``plan_moves``.
    """
    if host is None and not autoselect:
        raise InvalidCombination(
            ("hostid", "autoselect"), "Either hostid must be given, or autoselect must be true"
        )
    params: dict[str, Any] = {} if host is None else {HOST: host.id}
    check = None if host is None else partial(_check_host, host=host)
    if plan is not None:
        row = require_ready(connection, system, caller, vm, MIGRATE, check, parameter=OF_VM)
        shown = plan_moves(connection, caller, plan, [VmMove(vm.id, row.host_id, params.get(HOST))], MIGRATING)
        if plan.dry_run:
            return shown
        params = {HOST: shown.moves[0].to_host_id}
    return submit(connection, system, caller, vm, MIGRATE, params, check, parameter=OF_VM)


def _check_host(connection: Connection, vm: Row[Any], *, host: EntityRef) -> None:
    if vm.host_id == host.id and not vm.has_job:
        raise InvalidParameter("hostid", str(host.uuid), "the virtual machine is on this host already")
    problem = host_problem(connection, host.id, vm.zone_id)
    if problem is not None:
        raise InvalidParameter("hostid", str(host.uuid), f"the virtual machine cannot move there: {problem}")


def migrate_operation(onto: Places, off: Places) -> VmOperation:
    """Return the bulk operation that moves running VMs to the hosts ``onto`` and away from the hosts ``off``.

    The moves are planned together, and the hosts are claimed by the call. For a VM with an unfinished job no host
    is claimed, because its host is known only when this job ends.
    """
    return VmOperation.of_kind(MIGRATE, partial(_prepare_migration, onto=onto, off=off), claims_hosts=True)


def _prepare_migration(
    connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]], *, onto: Places, off: Places
) -> PreparedVms:
    del caller
    unready = find_unready(connection, system, vms, MIGRATE)
    leaving = {vm.id: vm.host_id for vm in vms if vm.id not in unready}
    forbidden = hosts_outside(connection, onto, off)
    free = {vm.id for vm in vms if not vm.has_job}
    plan = plan_together(
        connection,
        {vm_id: leaving[vm_id] for vm_id in leaving if vm_id in free},
        Purpose.MOVE,
        forbidden,
        to_claim=True,
    )
    busy = {vm_id: host_id for vm_id, host_id in leaving.items() if vm_id not in free}
    hosts = plan.hosts | plan_together(connection, busy, Purpose.MOVE, forbidden).hosts
    jobs = {vm_id: uuid4() for vm_id, host in plan.hosts.items() if isinstance(host, int)}

    def work_of(vm: Row[Any]) -> VmJob:
        if vm.id in unready:
            raise InvalidParameter(OF_VM, str(vm.uuid), unready[vm.id])
        host = hosts[vm.id]
        if isinstance(host, NoPlace):
            raise NoHostForVm(host.why)
        return VmJob(MIGRATE, {HOST: host}, host, jobs.get(vm.id))

    return PreparedVms(work_of, hosts=ClaimedHosts(plan, jobs, ConsumerKind.RESERVATION))


def find_hosts_for_migration(
    connection: Connection, caller: Caller, vm: EntityRef, arguments: Mapping[str, Any], paging: Paging
) -> Page:
    """Return the hosts that can access a running VM's volumes and networks.

    Each row also contains whether the host can run the VM now.

    Raises:
        InvalidParameter: the VM does not run.
        PermissionDenied: the caller may not access the VM.
    """
    row = read_vm_row(connection, vm.id)
    require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")
    if row.removed is not None or row.state != VmState.RUNNING:
        raise InvalidParameter(
            "virtualmachineid", str(vm.uuid), f"only a Running virtual machine can be migrated, this is {row.state}"
        )
    found = find_destinations(connection, vm.id, row.host_id)
    if found is None:
        return Page((), 0)
    page = list_destinations(connection, _reach(found, row.host_id), arguments, paging)
    answers = {answer.host_id: answer for answer in found.hosts.of([row["_id"] for row in page.rows])}
    return Page([_destination(row, answers[row["_id"]]) for row in page.rows], page.count)


def _destination(row: Mapping[str, Any], answer: HostAnswer) -> dict[str, Any]:
    host = {name: value for name, value in row.items() if name != "_id"}
    return {**host, "suitableformigration": answer.reason is None, **reason_fields(answer.reason)}


def _reach(found: Destinations, host_id: int) -> Reach:
    need = found.need
    return Reach(need.zone_id, need.hypervisor, need.pod_id, need.cluster_id, need.host_id, without_host_id=host_id)
