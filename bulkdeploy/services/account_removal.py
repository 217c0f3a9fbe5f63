"""What deleting an account, a domain or a project does to what they own, and disabling to their VMs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import EXPUNGE_COMMAND_CLASS, JobKind, command_class
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.services.done_jobs import done_with_success
from bulkdeploy.store.account_removal import insert_removal_job, lock_vms_of_accounts, remove_accounts
from bulkdeploy.store.action_events import SCHEDULED, ActionEvent, write_events
from bulkdeploy.store.done_jobs import Instance
from bulkdeploy.store.jobs import NewJob, insert_jobs
from bulkdeploy.store.volume_removal import destroy_volumes_of_accounts

RUNNING = (VmState.RUNNING.value, VmState.STARTING.value)
ANY_STATE = tuple(state.value for state in VmState)


@dataclass(frozen=True, slots=True)
class RemovalCall:
    """The call that removes accounts: the command's class in CloudStack, and what it was about."""

    cmd: str
    instance: Instance


def remove(
    connection: Connection, caller: Caller, call: RemovalCall, account_ids: Sequence[int]
) -> tuple[JobTicket, list[JobMessage]]:
    """Remove locked accounts with all that they own; messages to send after the commit.

    VMs are expunged by jobs, volumes that no VM has are removed by the sweeper. The call's own job ends when
    the last VM is gone, at once without any.
    """
    remove_accounts(connection, account_ids)
    destroy_volumes_of_accounts(connection, account_ids)
    vms = lock_vms_of_accounts(connection, account_ids, ANY_STATE)
    if not vms:
        return done_with_success(connection, caller, call.cmd, call.instance), []
    ticket = JobTicket(str(insert_removal_job(connection, caller, call.cmd, call.instance, account_ids)))
    owner = caller.owner.account_id
    jobs = [
        NewJob(JobKind.DESTROY, EXPUNGE_COMMAND_CLASS, owner, caller.user_id, vm.id, {"expunge": True})
        for vm in vms
    ]
    return ticket, _submit(connection, jobs, EventType.VM_DESTROY, "expunging a Vm whose owner was deleted")


def stop_vms(connection: Connection, caller: Caller, account_ids: Sequence[int]) -> list[JobMessage]:
    """Make jobs that stop all running VMs of these accounts; messages to send after the commit."""
    vms = lock_vms_of_accounts(connection, account_ids, RUNNING)
    cmd = command_class(JobKind.STOP, is_root_admin=caller.is_root_admin)
    owner = caller.owner.account_id
    jobs = [NewJob(JobKind.STOP, cmd, owner, caller.user_id, vm.id, {"forced": False}) for vm in vms]
    return _submit(connection, jobs, EventType.VM_STOP, "stopping a Vm whose owner was disabled")


def _submit(connection: Connection, jobs: Sequence[NewJob], event_type: EventType, text: str) -> list[JobMessage]:
    if not jobs:
        return []
    made = insert_jobs(connection, jobs, INTERACTIVE)
    write_events(connection, [ActionEvent(job_id, event_type, SCHEDULED, text) for job_id, _ in made])
    return [JobMessage(job_id, jobs[0].kind, INTERACTIVE) for job_id, _ in made]
