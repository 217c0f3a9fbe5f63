"""The effects of deleting accounts, domains and projects on their objects, and of disabling them on VMs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import expunge_in_any_state
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.sending import submit_jobs
from bulkdeploy.store.accounts.account_removal import (
    insert_removal_job,
    insert_stopping_job,
    lock_vms_of_accounts,
    remove_accounts,
)
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.job_results import object_result
from bulkdeploy.store.ledger.volume_removal import destroy_volumes_of_accounts

RUNNING = (VmState.RUNNING.value, VmState.STARTING.value)
ANY_STATE = tuple(state.value for state in VmState)


@dataclass(frozen=True, slots=True)
class RemovedAccounts:
    """The ids of removed accounts, and whether some of their VMs must still be expunged."""

    ids: Sequence[int]
    have_vms: bool


def remove(
    connection: Connection, job_queue: JobQueue, caller: Caller, account_ids: Sequence[int]
) -> RemovedAccounts:
    """Remove locked accounts with everything that they own.

    Jobs expunge the VMs, and the sweeper removes volumes that are not attached to a VM.
    """
    remove_accounts(connection, account_ids)
    destroy_volumes_of_accounts(connection, account_ids)
    vms = lock_vms_of_accounts(connection, account_ids, ANY_STATE)
    text = "expunging a Vm whose owner was deleted"
    by = {"account_id": caller.owner.account_id, "user_id": caller.user_id}
    if vms:
        submit_jobs(connection, job_queue, [expunge_in_any_state(vm, text, **by) for vm in vms])
    return RemovedAccounts(account_ids, bool(vms))


def removal_job(
    connection: Connection, caller: Caller, cmd: str, instance: Instance, removed: RemovedAccounts
) -> JobTicket:
    """Return the job of a call that removed accounts.

    The job ends when the last VM of the accounts is deleted. If the accounts have no VMs, the job has already
    succeeded. ``cmd`` is the class name of the command in CloudStack; ``instance`` is the object that the call
    deleted.
    """
    if not removed.have_vms:
        return done_with_success(connection, caller, cmd, instance)
    return JobTicket(str(insert_removal_job(connection, caller, cmd, instance, removed.ids)))


def stop_vms(
    connection: Connection, job_queue: JobQueue, caller: Caller, account_ids: Sequence[int]
) -> list[JobTicket]:
    """Create jobs that stop all running VMs of these accounts, and return the tickets of the jobs."""
    jobs = [
        STOP.new_job(
            Instance(STOP.instance_type, vm.id, vm.uuid),
            "stopping a Vm whose owner was disabled",
            account_id=caller.owner.account_id,
            user_id=caller.user_id,
            is_root_admin=caller.is_root_admin,
            params={"forced": False},
        )
        for vm in lock_vms_of_accounts(connection, account_ids, RUNNING)
    ]
    return submit_jobs(connection, job_queue, jobs) if jobs else []


def stopping_job(
    connection: Connection,
    caller: Caller,
    cmd: str,
    instance: Instance,
    shown: tuple[str, Mapping[str, Any]],
    stops: Sequence[JobTicket],
) -> JobTicket:
    """Return the job of a call that disabled an account or suspended a project.

    The job ends when the jobs ``stops`` have ended. Without ``stops`` it has already succeeded. ``shown`` has the
    key and the object of the job's result.
    """
    if not stops:
        return done_with_object(connection, caller, cmd, *shown, instance)
    uuids = [stop.job_uuid for stop in stops]
    return JobTicket(str(insert_stopping_job(connection, caller, cmd, instance, uuids, object_result(*shown))))
