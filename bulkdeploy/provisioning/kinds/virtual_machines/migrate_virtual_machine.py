"""The job that migrates a running VM (one file: one job kind). Both hosts are claimed until it ends, then one.

The claim shows that a migration is in progress: while the migration has a claim on the source, the guest may be on
either host. A failed migration is undone by requesting the migration back. While this gets no answer, the job waits
with claims on both hosts, also beyond ``job.cancel.threshold.minutes``: no claim may be released before it is known
where the guest runs. If the guest is on neither host, the VM becomes Stopped.

No guest runs on a host that was declared off, so only the other host is queried. If the guest runs there, the VM
keeps its claim on that host; otherwise the VM becomes Stopped, and ``evacuate_host`` starts it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAddress, address_of
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.processes.joined_requests import JoinedRequests, Unserved
from bulkdeploy.provisioning.assignment import Assignment, WorkReader
from bulkdeploy.provisioning.driver_calls import DECLARED_OFF
from bulkdeploy.provisioning.failed_tries import FailedTries
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    Failed,
    FinalState,
    LeaseLost,
    Outcome,
    Paused,
    Succeeded,
)
from bulkdeploy.provisioning.progress import OVERDUE, noted_failure, pause, save_progress, why_overdue
from bulkdeploy.scheduling.migrate import claim_destination, find_destination
from bulkdeploy.scheduling.place import NoPlace
from bulkdeploy.scheduling.replace import replace_place
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.infrastructure.host_maintenance import is_enabled
from bulkdeploy.store.jobs.jobs import LeasedJob, renew_leases
from bulkdeploy.store.virtual_machines.virtual_machine_migration import (
    begin_reserved,
    read_sources,
    release_both_hosts,
    release_destinations,
    release_reservations,
    release_sources,
)

NOT_BEGUN = FinalState(release=release_reservations)
ARRIVED = FinalState(VmState.RUNNING, release_sources)
STAYED = FinalState(VmState.RUNNING, release_destinations)
ENDED = FinalState(VmState.STOPPED, release_both_hosts)
MIGRATE_COMMIT = "migrate.commit"
MOST_TOGETHER = 64
"""Moves to reserved hosts that begin in one transaction."""

HOST = "host_id"
FROM_HOST = "from_host_id"
FOR_MAINTENANCE = "for_maintenance"
"""Params of the job: the host to move to (else placement chooses), or the one to leave; and whether that is for its
maintenance, which may be cancelled."""


@dataclass(frozen=True, slots=True)
class _Move:
    """The migration of a VM: its work, which claims the destination as ``work.host``, and its source host."""

    work: Assignment
    destination: HostAddress
    source_id: int
    source: HostAddress


class MigrateVirtualMachine(VmSteps):
    """The steps of migrating a VM. The parameters are described at the constants of this module, such as HOST."""

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._begins: JoinedRequests[Assignment, _Move | None] = JoinedRequests(
            self._begin_reserved, largest=MOST_TOGETHER
        )

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return success if the VM should leave a host and has no claim on any host any more.

        Otherwise returns None, or a failure if the VM's state does not allow a migration.
        """
        if FROM_HOST in work.job.params and work.host_id is None and work.state is not VmState.MIGRATING:
            return Succeeded(NOT_BEGUN)
        outcome = super().at_once(work)
        return replace(outcome, final=NOT_BEGUN) if isinstance(outcome, Failed) else outcome

    @override
    def run(self, work: Assignment) -> Outcome:
        move = self._begin(work)
        if not isinstance(move, _Move):
            return move
        failure = noted_failure(work, "migrate", move.destination)
        while True:
            if failure is None:
                failure = self.tools.calls.migrate(move.work, move.source, move.destination)
            if failure is None:
                return Succeeded(ARRIVED)
            keep_lease(self.tools.engine, move.work.job, self.tools.lease_seconds)
            left = self.tools.calls.migrate(move.work, move.destination, move.source)
            if left is not None:
                ended = self._end_where_it_runs(move, left)
                if ended is not None:
                    return ended
                if (
                    not move.work.is_off(move.destination)
                    or self._look(move, move.source) is not PowerState.RUNNING
                ):
                    return pause(move.work, failure)
            again = self._elsewhere(move, failure)
            if not isinstance(again, _Move):
                return again
            move, failure = again, None

    def _end_where_it_runs(self, move: _Move, left: DriverError) -> Succeeded | Failed | None:
        """Return the outcome after the migration back to the source was rejected permanently (``left``).

        Returns None if the migration is not over: the error may pass, a host cannot be queried, or the guest runs
        at its source.
        """
        if left.may_pass:
            return None
        seen = [self._look(move, host) for host in (move.source, move.destination)]
        if seen[1] is PowerState.RUNNING and move.work.is_off(move.source):
            return Succeeded(ARRIVED)
        why = f"its guest does not run any more: {left}"
        if seen == [None, None]:
            return self.failed(move.work, RESOURCE_UNAVAILABLE, why, ENDED)
        if seen[0] is PowerState.STOPPED:
            return self.failed(move.work, RESOURCE_UNAVAILABLE, why, STAYED)
        if seen[1] is PowerState.STOPPED:
            return self.failed(move.work, RESOURCE_UNAVAILABLE, why, ARRIVED)
        return None

    def _look(self, move: _Move, host: HostAddress) -> PowerState | DriverError | None:
        return self.tools.calls.state_on_host(move.work, host)

    def _begin(self, work: Assignment) -> _Move | Outcome:
        if HOST in work.job.params:
            try:
                move = self._begins.run(work)
            except Unserved:
                move = None
            if move is not None:
                return move
        begin = partial(self._begin_move, work=work)
        return run_transaction(self.tools.engine, begin, MIGRATE_COMMIT, during=self.tools.planning)

    def _begin_reserved(self, works: Sequence[Assignment]) -> Sequence[_Move | None]:
        """Begin the migrations to reserved hosts in one transaction, and return them in order.

        The result is None for each migration that must begin in a transaction of its own.
        """
        plain = [work for work in works if _is_plain(work)]
        begin = partial(self._swap_claims, works=plain)
        try:
            moves = run_transaction(self.tools.engine, begin, MIGRATE_COMMIT) if plain else {}
        except LeaseLost:
            moves = {}
        return [moves.get(work.job.id) for work in works]

    def _swap_claims(self, connection: Connection, *, works: Sequence[Assignment]) -> dict[int, _Move]:
        begun = begin_reserved(connection, {work.guest.uuid: work.job.uuid for work in works})
        jobs = [work.job for work in works if work.guest.uuid in begun]
        kept = renew_leases(connection, {job.id: job.fence for job in jobs}, self.tools.lease_seconds)
        if len(kept) < len(jobs):
            raise LeaseLost(f"{len(jobs) - len(kept)} jobs lost their leases before their moves began")
        return _read_moves(connection, jobs)

    def _begin_move(self, connection: Connection, *, work: Assignment) -> _Move | Outcome:
        """Return the migration that an earlier attempt has begun, or begin a new one.

        Returns the outcome of the job if no migration is needed or possible.
        """
        begun = _read_moves(connection, [work.job])
        if begun:
            return begun[work.job.id]
        params, here = work.job.params, work.host_id
        if here is None or here == params.get(HOST) or here != params.get(FROM_HOST, here):
            return Succeeded(FinalState(VmState.RUNNING, release_reservations))
        if work.host_is_off:
            return self.failed(work, RESOURCE_UNAVAILABLE, DECLARED_OFF, ENDED)
        if params.get(FOR_MAINTENANCE) and is_enabled(connection, here):
            return self.failed(work, INTERNAL_ERROR, "the maintenance of its host was cancelled", STAYED)
        if OVERDUE in work.job.progress:
            return self.failed(work, RESOURCE_UNAVAILABLE, why_overdue(work.job.progress), STAYED)
        if begin_reserved(connection, {work.guest.uuid: work.job.uuid}):
            return self._claimed(connection, work.job)
        place = find_destination(connection, work.vm_id, host_id=params.get(HOST), avoid_host_ids=frozenset({here}))
        if isinstance(place, NoPlace):
            return self.failed(work, INSUFFICIENT_CAPACITY, place.why, STAYED, place.excluded)
        claim_destination(connection, place, work.job.uuid)
        return self._claimed(connection, work.job)

    def _elsewhere(self, move: _Move, failure: DriverError) -> _Move | Failed | Paused:
        """Claim another destination.

        Returns the migration, a pause before the next attempt, or the failure of the job.

        The guest runs at its source.
        """
        if HOST in move.work.job.params:
            return self.failed(move.work, RESOURCE_UNAVAILABLE, str(failure), STAYED)
        if OVERDUE in move.work.job.progress:
            return self.failed(
                move.work, RESOURCE_UNAVAILABLE, f"{failure}; {why_overdue(move.work.job.progress)}", STAYED
            )
        claim = partial(self._claim_elsewhere, move=move, failure=failure)
        return run_transaction(self.tools.engine, claim, MIGRATE_COMMIT, during=self.tools.planning)

    def _claim_elsewhere(
        self, connection: Connection, *, move: _Move, failure: DriverError
    ) -> _Move | Failed | Paused:
        work, job = move.work, move.work.job
        tries = FailedTries.of(job.progress).add(work.host_id, failure)
        most = read_configuration(connection).number("start.retry")
        if tries.count > most:
            why = f"{failure}; gave up after {tries.count} tries (start.retry is {most})"
            return self.failed(work, RESOURCE_UNAVAILABLE, why, STAYED)
        problem = self._claim_outside(connection, job, tries.avoided | {move.source_id})
        is_later = problem is not None and tries.may_forget
        if is_later:
            tries = tries.forget_passing()
            avoided = tries.avoided | {move.source_id}
            problem = None if failure.may_pass else self._claim_outside(connection, job, avoided)
        if problem is not None:
            why = f"{failure}; then {problem.why}"
            return self.failed(work, RESOURCE_UNAVAILABLE, why, STAYED, problem.excluded)
        again = self._claimed(connection, replace(job, progress=tries.noted_in(job.progress)))
        return pause(again.work, None) if is_later else again

    def _claim_outside(self, connection: Connection, job: LeasedJob, avoided: frozenset[int]) -> NoPlace | None:
        """Replace the claimed destination by a host outside ``avoided``, or return the reason if there is none."""
        return replace_place(
            connection,
            job.instance_id,
            give_back=lambda: release_destinations(connection, [job.instance_id]),
            find=lambda: find_destination(connection, job.instance_id, host_id=None, avoid_host_ids=avoided),
            claim=partial(claim_destination, migration=job.uuid),
        )

    def _claimed(self, connection: Connection, job: LeasedJob) -> _Move:
        """Renew the lease, and return the migration whose destination was just claimed."""
        save_progress(connection, job, job.progress, self.tools.lease_seconds)
        return _read_moves(connection, [job])[job.id]


def _is_plain(work: Assignment) -> bool:
    """Return whether the migration can begin without further checks as soon as its host is reserved."""
    return (
        work.host_id not in (None, work.job.params.get(HOST))
        and FROM_HOST not in work.job.params
        and OVERDUE not in work.job.progress
        and not work.host_is_off
    )


def _read_moves(connection: Connection, jobs: Sequence[LeasedJob]) -> dict[int, _Move]:
    """Return the migrations that have begun, by job id. Jobs without a claim on a source are omitted."""
    sources = read_sources(connection, [job.uuid for job in jobs])
    moving = [job for job in jobs if job.uuid in sources]
    works = WorkReader().read_assignments(connection, moving) if moving else {}
    return {job.id: _move(works[job.id], sources[job.uuid]) for job in moving}


def _move(work: Assignment, source: Row[Any]) -> _Move:
    if work.host is None:
        raise AssertionError("a VM that migrates holds its destination")
    off = work.off_hosts | ({source.uuid} if source.is_off else set())
    return _Move(replace(work, off_hosts=off), work.host, source.id, address_of(source))


MIGRATE = JobKind(
    name="migrate_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.MigrateVMCmd",
    event_type=EventType.VM_MIGRATE,
    verb="migrate",
    action="migrating",
    not_done="was not migrated",
    states=frozenset({VmState.RUNNING}),
    move=Move(frozenset({VmState.RUNNING}), VmState.MIGRATING),
    ability=LiveMigration,
    spoils_snapshots=False,
    if_abandoned=FinalState(VmState.UNKNOWN, release_destinations),
    if_never_begun=NOT_BEGUN,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=frozenset({MIGRATE_COMMIT, Failpoint.DRIVER_MIGRATE, Failpoint.KEEP_COMMIT, Failpoint.DRIVER_LOOK}),
    steps=MigrateVirtualMachine,
)
