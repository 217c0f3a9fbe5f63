"""The job that balances a zone or a part of it: each set of migrations is planned after the one before.

Each time the job runs, it waits for its migrations to end, or plans the next set and creates a job for each
migration. Therefore it takes changes in between into account, such as a deployment or a failed migration. A VM
whose migration failed is not moved again. The job needs no driver. If the worker dies, the next run reads the
current state again, so nothing is lost.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import AllocationState
from bulkdeploy.domain.jobs import PLANNED, InstanceType
from bulkdeploy.provisioning.assignment import PlaceWork
from bulkdeploy.provisioning.child_jobs import make_child_jobs
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, JobSteps
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import FROM_HOST, HOST, MIGRATE
from bulkdeploy.provisioning.outcome import RESOURCE_UNAVAILABLE, UNCHANGED, Outcome, Paused, Succeeded
from bulkdeploy.provisioning.progress import OVERDUE, save_progress, why_overdue
from bulkdeploy.queue.job_queue import JobMessage
from bulkdeploy.scheduling.balance import BalanceScope, plan_zone_balance
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.infrastructure.host_maintenance import lock_vms_to_move, submitter_of, vms_with_child_jobs
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.ledger.balance_rows import read_balancing

LOOK_AGAIN_S = 2.0
"""The end of a VM's job wakes the zone's; this is the net below."""

BALANCE_COMMIT = "balance.commit"
PINS = ("pod_id", "cluster_id")
"""Params of a job that balances only that."""

BEFORE, AFTER = "before", "after"
"""Keys of the job's progress: the score when it was first looked at, and when it was looked at last."""


class BalanceZone(JobSteps[PlaceWork]):
    """The steps of balancing a zone or a part of it.

    Parameters: ``hypervisors`` that can migrate running VMs, ``most_moves``, ``least_gain``, optionally one of PINS
    for a part of the zone, and PLANNED if a plan is applied.
    """

    @override
    def run(self, work: PlaceWork) -> Outcome:
        return run_transaction(self.tools.engine, partial(self._look, work=work), BALANCE_COMMIT)

    def _look(self, connection: Connection, *, work: PlaceWork) -> Outcome:
        job = work.job
        made = read_balancing(connection, job.id)
        if made.moving:
            return Paused(LOOK_AGAIN_S, {})
        params = job.params
        planned = params.get(PLANNED)
        scope = BalanceScope(
            job.instance_id, frozenset(params["hypervisors"]), **{pin: params[pin] for pin in PINS if pin in params}
        )
        plan = plan_zone_balance(
            connection,
            scope,
            most_moves=0 if planned is not None else params["most_moves"] - made.moves,
            least_gain=params["least_gain"],
            most_sets=1,
            without_vms=made.failed_vms,
        )
        progress = {BEFORE: plan.before.total, **job.progress, AFTER: plan.before.total}
        save_progress(connection, job, progress, self.tools.lease_seconds)
        moves = {move.vm_id: move.to_host_id for moves in plan.sets for move in moves}
        if planned is not None:
            moves = _next_turn(planned, vms_with_child_jobs(connection, job.id))
        if not moves:
            return Succeeded(UNCHANGED)
        if OVERDUE in job.progress:
            why = f"{why_overdue(job.progress)}; {made.moves - made.failed} VM(s) were moved"
            return self.failed(work, RESOURCE_UNAVAILABLE, why)
        return Paused(LOOK_AGAIN_S, {}, _move(connection, work, moves))


def _next_turn(planned: Sequence[Sequence[int]], begun: Collection[int]) -> dict[int, int]:
    """Return the first set of moves of an applied plan that has not begun completely, without begun moves.

    The result has the destination by VM id.
    """
    left = [(turn, vm_id, host_id) for vm_id, host_id, turn in planned if vm_id not in begun]
    first = min((turn for turn, _, _ in left), default=0)
    return {vm_id: host_id for turn, vm_id, host_id in left if turn == first}


def _move(connection: Connection, work: PlaceWork, moves: Mapping[int, int]) -> list[JobMessage]:
    """Create jobs that move VMs to these hosts. VMs that another transaction has locked are moved later."""
    job = work.job
    jobs = [
        MIGRATE.new_job(
            Instance(MIGRATE.instance_type, vm.id, vm.uuid),
            f"moving Vm {vm.instance_name} to balance zone {work.name}",
            account_id=submitter_of(connection, job.id),
            user_id=job.user_id,
            params={HOST: moves[vm.id], FROM_HOST: vm.host_id},
            parent_id=job.id,
        )
        for vm in lock_vms_to_move(connection, sorted(moves), len(moves))
    ]
    return make_child_jobs(connection, jobs)


BALANCE = JobKind(
    name="balance_zone",
    instance_type=InstanceType.ZONE,
    command_class="org.apache.cloudstack.api.command.admin.zone.BalanceZoneCmd",
    event_type=EventType.ZONE_BALANCE,
    verb="balance",
    action="balancing",
    not_done="was not balanced",
    states=frozenset(AllocationState),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.BALANCE,
    failpoints=frozenset({BALANCE_COMMIT}),
    steps=BalanceZone,
)
