"""The rows of a bulk operation: changes that are written immediately, and jobs that are sent after the commit."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.jobs import InstanceType, class_for
from bulkdeploy.domain.resources import NOTHING, ResourceAmounts
from bulkdeploy.queue.job_queue import JobMessage, bulk_queue
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machine_changes import count
from bulkdeploy.services.virtual_machines.vm_work import PreparedVms, VmChange, VmJob, VmOperation
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.jobs.done_jobs import DoneJob, Instance, insert_done_jobs
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.jobs.job_results import object_result
from bulkdeploy.store.jobs.jobs import insert_jobs
from bulkdeploy.store.virtual_machines.virtual_machine_changes import update_vms
from bulkdeploy.store.virtual_machines.virtual_machines import virtual_machine_rows


def make_changes(
    connection: Connection,
    caller: Caller,
    operation: VmOperation,
    prepared: PreparedVms,
    changes: Sequence[tuple[Row[Any], VmChange]],
    operation_id: int,
) -> dict[int, UUID]:
    """Change VMs, and return the uuid of each VM's job, which has succeeded, by VM id."""
    if not changes:
        return {}
    owners = owners_by_id(connection, {vm.account_id for vm, _ in changes})
    amounts: dict[int, ResourceAmounts] = {}
    for vm, change in changes:
        amounts[vm.account_id] = amounts.get(vm.account_id, NOTHING).plus(change.amounts)
    for account_id, taken in sorted(amounts.items()):
        count(connection, owners[account_id], taken)
    update_vms(connection, {vm.id: change.columns for vm, change in changes})
    if prepared.write_more is not None:
        prepared.write_more(connection, [vm for vm, _ in changes])
    instances = {vm.id: Instance(InstanceType.VIRTUAL_MACHINE, vm.id, vm.uuid) for vm, _ in changes}
    record_events(
        connection,
        caller,
        [
            Happened(change.event_type, f"{operation.verb} Vm {vm.name}", instances[vm.id], owners[vm.account_id])
            for vm, change in changes
        ],
    )
    shown = virtual_machine_rows(connection, list(instances))
    cmd = class_for(operation.command_class, is_root_admin=caller.is_root_admin)
    done = [DoneJob(object_result("virtualmachine", shown[vm_id]), about) for vm_id, about in instances.items()]
    uuids = insert_done_jobs(connection, caller, cmd, done, operation_id)
    return dict(zip(instances, uuids, strict=True))


def make_jobs(
    connection: Connection,
    system: System,
    caller: Caller,
    works: Sequence[tuple[Row[Any], VmJob]],
    operation_id: int,
    max_parallel: int | None,
) -> dict[int, UUID]:
    """Insert one job for each VM, and return their uuids by VM id.

    At most ``max_parallel`` are sent after the commit.
    """
    if not works:
        return {}
    queue, in_turn = bulk_queue(len(works)), _spread_over_hosts(works)
    made = insert_jobs(
        connection,
        [
            work.kind.new_job(
                Instance(work.kind.instance_type, vm.id, vm.uuid),
                f"asked to {work.kind.verb} Vm {vm.name}",
                account_id=caller.owner.account_id,
                user_id=caller.user_id,
                is_root_admin=caller.is_root_admin,
                params=work.params,
                uuid=work.uuid,
            )
            for vm, work in in_turn
        ],
        queue,
        operation_id,
        max_parallel,
    )
    sent = zip(made[:max_parallel], in_turn, strict=False)
    send_jobs(
        connection, system.job_queue, [JobMessage(job, work.kind.name, queue) for (job, _), (_, work) in sent]
    )
    return {vm.id: job_uuid for (vm, _), (_, job_uuid) in zip(in_turn, made, strict=True)}


def _spread_over_hosts(works: Sequence[tuple[Row[Any], VmJob]]) -> list[tuple[Row[Any], VmJob]]:
    """Return the work in an order that alternates between hosts, so that one host's VMs are far apart.

    A VM that starts or moves counts for its new host.
    """
    seen: Counter[int | None] = Counter()
    turns = []
    for at, (vm, work) in enumerate(works):
        host_id = vm.host_id if work.host_id is None else work.host_id
        turns.append((seen[host_id], at))
        seen[host_id] += 1
    return [works[at] for _, at in sorted(turns)]
