"""Repairs on hypervisors: jobs correct guests and volumes that differ from their rows.

A VM gets a job that repairs its guest. The guest of an expunged VM is expunged again, and the sweeper removes a
volume whose row was deleted. Guests and volumes without any row may belong to another system, and are left to
operators.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.provisioning.kinds.virtual_machines.expunge_virtual_machine import EXPUNGE
from bulkdeploy.provisioning.kinds.virtual_machines.repair_virtual_machine import REPAIR
from bulkdeploy.queue.job_queue import INTERACTIVE
from bulkdeploy.services.auditing.audit import Comparison
from bulkdeploy.services.auditing.heal import Healing, heal_connection
from bulkdeploy.store.auditing import repairs as store
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import insert_jobs

BY_A_JOB = "bulkdeploy heal creates a job that repairs it"
BY_HAND = "it has no row: remove it on its hypervisor, or keep it if it belongs to another system"
LOST = "restoreVirtualMachine creates a new root disk; restore a data volume from a backup, or detach it"
UNSEEN = "it is not repaired while its host does not answer: restart the host, or declare it off (evacuateHost)"


@dataclass(frozen=True, slots=True)
class Repairs:
    """The started repairs: jobs by the VM that they repair, and volumes that the sweeper removes."""

    jobs: dict[UUID, UUID] = field(default_factory=dict)
    volumes: set[UUID] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Repaired:
    """The results of repair jobs: the number of successes, the failures with reasons, and unfinished jobs."""

    succeeded: int
    failed: dict[UUID, str]
    unfinished: set[UUID]


def broken(connection: Connection, found: Comparison) -> list[tuple[str, str]]:
    """Return a description of each difference between rows and hypervisors, with the remedy for the difference."""
    vms = store.known_vms(connection, [*found.guests, *found.devices])
    volumes = store.known_volumes(connection, found.volumes)
    listed = [
        (breach, BY_A_JOB if uuid in vms else BY_HAND)
        for uuid, breach in (*found.guests.items(), *found.devices.items())
    ]
    for uuid, breach in found.volumes.items():
        remedy = BY_HAND if uuid in found.pools else LOST
        listed.append((breach, "heal has it removed" if uuid in volumes else remedy))
    return listed


def unknown(found: Comparison) -> list[str]:
    """Return one text for each guest and volume that cannot be checked now. These objects are not repaired."""
    unseen = [*found.unknown_guests.values(), *found.unknown_volumes.values()]
    return [f"UNKNOWN {text}\n        {UNSEEN}" for text in unseen]


def begin_repairs(connection: Connection, found: Comparison, healing: Healing) -> Repairs:
    """Create jobs that repair the differences within the scope of ``healing``.

    VMs that another job is working on are skipped.
    """
    wanted = found.guests.keys() | found.devices.keys()
    if healing.vm is not None:
        wanted &= {healing.vm}
    begun = Repairs()
    vms = [vm for vm in store.lock_vms(connection, wanted) if healing.host_id in (None, vm.host_id)]
    again = {vm.uuid: found.seen[vm.uuid][0].host_uuid for vm in vms if vm.removed and vm.uuid in found.seen}
    expunging = store.remove_vms_again(connection, again)
    if healing.vm is None and healing.host_id is None:
        pools = {uuid: found.pools[uuid][0] for uuid in found.volumes if uuid in found.pools}
        begun.volumes.update(store.remove_volumes_again(connection, pools))
    if expunging or begun.volumes:  # before jobs are created, because it ignores objects with unfinished jobs
        heal_connection(connection, Healing(healing.batch))
    for vm in vms:
        kind = EXPUNGE if vm.uuid in expunging else REPAIR
        if (vm.removed and kind is REPAIR) or (kind is REPAIR and vm.state not in REPAIR.states):
            continue
        job = kind.new_job(
            Instance(kind.instance_type, vm.id, vm.uuid),
            f"{kind.action} Vm {vm.name}, whose guest is not what its row says",
            account_id=vm.account_id,
            user_id=vm.user_id,
        )
        ((_, job_uuid),) = insert_jobs(connection, [job], INTERACTIVE)
        begun.jobs[vm.uuid] = job_uuid
    return begun


def ends_of(connection: Connection, repairs: Repairs) -> Repaired:
    """Return the results of the repair jobs so far: the number of successes, failures and unfinished jobs."""
    ends = store.ends_of_jobs(connection, repairs.jobs.values())
    return Repaired(
        succeeded=sum(end.status == JobStatus.SUCCEEDED for end in ends),
        failed={end.instance_uuid: str(end.reason) for end in ends if end.status == JobStatus.FAILED},
        unfinished={end.uuid for end in ends if end.status == JobStatus.IN_PROGRESS},
    )


def report(begun: Repairs, ended: Repaired) -> Collection[str]:
    """Return lines of text about the started repairs and their results."""
    lines = []
    if ended.succeeded:
        lines.append(f"repaired  virtual machines: {ended.succeeded}")
    if begun.volumes:
        lines.append(f"removing  volumes: {len(begun.volumes)}")
    lines += [f"FAILED  {why}" for why in ended.failed.values()]
    return lines + [f"UNDONE  job {job} has not ended" for job in sorted(ended.unfinished)]
