"""Migrating a running VM: both hosts are claimed while it moves, one of them afterwards.

The claim is the memory of the move: while the migration holds the source, the guest may be on either host. A
move that fails is undone by asking for the opposite; while that gets no answer the job waits with both hosts
claimed, also beyond ``job.cancel.threshold.minutes``: nothing may be given back before it is known where the
guest runs. One that is seen to run nowhere keeps nobody waiting.
"""

from dataclasses import dataclass, replace
from functools import partial
from threading import Semaphore

from sqlalchemy import Connection, Engine

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError, HostAddress, PowerState
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    Failed,
    GiveBack,
    LeaseLost,
    Outcome,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.starting import AVOID
from bulkdeploy.provisioning.steps import FAILURE, OVERDUE, Begin, earlier_failure, pause, why_overdue
from bulkdeploy.scheduling.migrate import claim_destination, find_destination
from bulkdeploy.scheduling.replace import replace_place
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.host_maintenance import is_enabled
from bulkdeploy.store.jobs import LeasedJob, write_progress
from bulkdeploy.store.virtual_machine_migration import read_source, release_destinations

ARRIVED = Settlement(VmState.RUNNING, GiveBack.SOURCE)
STAYED = Settlement(VmState.RUNNING, GiveBack.DESTINATION)
HOST = "host_id"
FROM_HOST = "from_host_id"
"""Params of the job: the host to move to (else placement chooses), or the one to leave."""


@dataclass(frozen=True, slots=True)
class _Move:
    """A VM that holds its destination (``work.host``), and where it comes from."""

    work: Assignment
    destination: HostAddress
    source_id: int
    source: HostAddress


class MigrateVirtualMachine:
    """Steps of ``JobKind.MIGRATE``.

    Args:
        engine: for claims; its transactions are short.
        planning: held while a place is looked for.
        calls: the drivers.
        lease_seconds: how long claiming prolongs the lease.
    """

    begin = Begin(
        EventType.VM_MIGRATE, "migrating Vm", frozenset({VmState.RUNNING, VmState.MIGRATING}), VmState.MIGRATING
    )

    def __init__(self, engine: Engine, planning: Semaphore, calls: DriverCalls, lease_seconds: float) -> None:
        self._engine, self._planning = engine, planning
        self._calls, self._lease_seconds = calls, lease_seconds

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps."""
        del job
        return True

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps. A VM that is to leave a host and holds none has left it."""
        if work.state is VmState.MIGRATING:
            return None
        if FROM_HOST in work.job.params and work.host_id is None:
            return Succeeded(Settlement())
        return Failed(
            INTERNAL_ERROR, f"VM {work.name} cannot be migrated in state {work.state.value}", Settlement()
        )

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        with self._planning:
            move = run_transaction(self._engine, partial(self._begin_move, work=work), CrashPoint.MIGRATE_COMMIT)
        if not isinstance(move, _Move):
            return move
        failure = earlier_failure(work.job.progress)
        if failure is None and OVERDUE in work.job.progress:
            failure = DriverError("migrate", move.destination.name, why_overdue(work.job.progress), transient=True)
        while True:
            if failure is None:
                failure = self._calls.migrate(move.work, move.source, move.destination)
            if failure is None:
                return Succeeded(ARRIVED)
            keep_lease(self._engine, move.work.job, self._lease_seconds)
            left = self._calls.migrate(move.work, move.destination, move.source)
            if left is not None:
                return self._off(move, left) or pause(move.work, failure)
            again = self._elsewhere(move, failure)
            if not isinstance(again, _Move):
                return again
            move, failure = again, None

    def _off(self, move: _Move, left: DriverError) -> Failed | None:
        """How the move ends where going back was refused because the guest does not run any more; else None."""
        if left.transient or left.unanswered:
            return None
        seen = [self._calls.look(move.work, host) for host in (move.source, move.destination)]
        why = f"its guest does not run any more: {left}"
        if seen[0] is PowerState.STOPPED or seen == [None, None]:
            return _failed(move.work, RESOURCE_UNAVAILABLE, why)
        if seen[1] is PowerState.STOPPED:
            return replace(_failed(move.work, RESOURCE_UNAVAILABLE, why), settlement=ARRIVED)
        return None

    def _begin_move(self, connection: Connection, *, work: Assignment) -> _Move | Outcome:
        """The move that an earlier try has begun, or a new one; an outcome where none is needed or possible."""
        begun = _read_move(connection, work.job)
        if begun is not None:
            return begun
        params, here = work.job.params, work.host_id
        if here is None or here == params.get(HOST) or here != params.get(FROM_HOST, here):
            return Succeeded(Settlement(VmState.RUNNING))
        if FROM_HOST in params and is_enabled(connection, here):
            return _failed(work, INTERNAL_ERROR, "the maintenance of its host was cancelled")
        if OVERDUE in work.job.progress:
            return _failed(work, RESOURCE_UNAVAILABLE, why_overdue(work.job.progress))
        place = find_destination(
            connection, work.job.vm_id, host_id=params.get(HOST), avoid_host_ids=frozenset({here})
        )
        if isinstance(place, str):
            return _failed(work, INSUFFICIENT_CAPACITY, place)
        claim_destination(connection, place, work.job.uuid)
        return self._claimed(connection, work.job)

    def _elsewhere(self, move: _Move, failure: DriverError) -> _Move | Failed:
        """The same VM with another destination, or why there is none; the guest runs at its source."""
        if HOST in move.work.job.params:
            return _failed(move.work, RESOURCE_UNAVAILABLE, str(failure))
        if OVERDUE in move.work.job.progress:
            return _failed(move.work, RESOURCE_UNAVAILABLE, f"{failure}; {why_overdue(move.work.job.progress)}")
        with self._planning:
            claim = partial(self._claim_elsewhere, move=move, failure=failure)
            return run_transaction(self._engine, claim, CrashPoint.MIGRATE_COMMIT)

    def _claim_elsewhere(self, connection: Connection, *, move: _Move, failure: DriverError) -> _Move | Failed:
        work, job = move.work, move.work.job
        failed = {*job.progress.get(AVOID, ()), *(() if work.host_id is None else (work.host_id,))}
        most = read_configuration(connection).number("start.retry")
        if len(failed) > most:
            why = f"{failure}; gave up after {len(failed)} hosts (start.retry is {most})"
            return _failed(work, RESOURCE_UNAVAILABLE, why)
        avoid = frozenset({*failed, move.source_id})
        problem = replace_place(
            connection,
            job.vm_id,
            give_back=lambda: release_destinations(connection, [job.vm_id]),
            find=lambda: find_destination(connection, job.vm_id, host_id=None, avoid_host_ids=avoid),
            claim=partial(claim_destination, migration=job.uuid),
        )
        if problem is not None:
            return _failed(work, RESOURCE_UNAVAILABLE, f"{failure}; then {problem}")
        progress = {name: value for name, value in job.progress.items() if name != FAILURE}
        return self._claimed(connection, replace(job, progress={**progress, AVOID: sorted(failed)}))

    def _claimed(self, connection: Connection, job: LeasedJob) -> _Move:
        """The move just claimed; the lease must still be ours."""
        if not write_progress(connection, job, job.progress, self._lease_seconds):
            raise LeaseLost(f"job {job.id} lost its lease while it was given a destination")
        move = _read_move(connection, job)
        if move is None:
            raise AssertionError("a migration that was claimed holds its source")
        return move


def _read_move(connection: Connection, job: LeasedJob) -> _Move | None:
    source = read_source(connection, job.uuid)
    if source is None:
        return None
    work = read_assignment(connection, job)
    if work.host is None:
        raise AssertionError("a VM that migrates holds its destination")
    address = HostAddress(source.uuid, source.name, source.ip_address, source.hypervisor)
    return _Move(work, work.host, source.id, address)


def _failed(work: Assignment, code: int, why: str) -> Failed:
    return Failed(code, f"VM {work.name} was not migrated: {why}", STAYED)
