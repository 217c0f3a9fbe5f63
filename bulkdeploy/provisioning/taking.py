"""Taking leases: many jobs at once, each begun in the same transaction."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from bulkdeploy.domain.jobs import HOST_KINDS, JobKind
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment, AssignmentReader
from bulkdeploy.provisioning.host_maintenance import HOST_ACTIONS, prepare_host
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, Failed, GiveBack, Settlement
from bulkdeploy.provisioning.settling import LANES, Finished
from bulkdeploy.provisioning.steps import OVERDUE, JobSteps, why_overdue
from bulkdeploy.queue.job_queue import JobMessage
from bulkdeploy.store.action_events import STARTED, ActionEvent, write_events
from bulkdeploy.store.configuration import Configuration, read_configuration
from bulkdeploy.store.guests import move_states
from bulkdeploy.store.job_leases import DriverLimits, Lessee, hold_back, take_leases
from bulkdeploy.store.jobs import LeasedJob

SETTINGS_FRESH_S = 1.0
"""Settings that operators change are read again after this."""

CLEANING_TRIES = 2
"""A job under which too many workers ended is only cleaned up after; if these tries end workers as well, it fails
without, and the sweeper has the VM removed some time later."""

LEFT_BEHIND = {
    JobKind.DEPLOY: Settlement(VmState.EXPUNGING),
    JobKind.MIGRATE: Settlement(VmState.UNKNOWN, GiveBack.DESTINATION),
    JobKind.SCALE: Settlement(give_back=GiveBack.GROWTH),
    JobKind.ATTACH_VOLUME: Settlement(),
    JobKind.DETACH_VOLUME: Settlement(),
    JobKind.ADD_NIC: Settlement(),
    JobKind.REMOVE_NIC: Settlement(),
}


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of asking for leases: jobs for drivers, jobs that rows alone decided, and how many got none.

    ``messages`` are of jobs that were made.
    """

    assignments: list[Assignment] = field(default_factory=list)
    decided: list[Finished] = field(default_factory=list)
    refused: int = 0
    messages: list[JobMessage] = field(default_factory=list)


class LeaseTaker:
    """Takes leases for one worker. Used by one thread.

    Args:
        steps: what each kind of job consists of.
        worker: the name in the lease.
        lease_seconds: how long a lease holds without renewal.
        suspects: how many jobs this process has in hand under which workers ended abruptly before.
    """

    def __init__(
        self,
        steps: Mapping[JobKind, JobSteps],
        worker: str,
        lease_seconds: float,
        suspects: Callable[[], int] = lambda: 0,
    ) -> None:
        self._steps, self._suspects = steps, suspects
        self._lessee = Lessee(worker, lease_seconds, {*steps, *HOST_KINDS})
        self._reader = AssignmentReader()
        self._settings: tuple[float, Configuration] | None = None

    def take(self, connection: Connection, job_ids: Sequence[int]) -> Taken:
        """Lease what may be run, and begin it; a job asked for twice is refused once."""
        wanted = set(job_ids)
        settings = self._read_settings(connection)
        limits, room = DriverLimits.of(settings), 0 if self._suspects() else 1
        jobs = take_leases(connection, list(wanted), self._lessee, limits, suspects=room)
        if len(jobs) < len(wanted):
            hold_back(connection, list(wanted - {job.id for job in jobs}), self._lessee, limits, LANES)
        taken = Taken(refused=len(job_ids) - len(jobs))
        if not jobs:
            return taken
        for job in jobs:
            if job.kind in HOST_KINDS:
                self._look_at_host(connection, taken, job)
        jobs = [job for job in jobs if job.kind not in HOST_KINDS]
        most_lost = settings.number("job.lost.worker.max")
        jobs = [job if job.lost < most_lost else _to_be_ended(job, most_lost) for job in jobs]
        self._move_vms(connection, jobs)
        works = self._reader.read(connection, jobs)
        for job in jobs:
            self._sort(taken, job, works.get(job.id), given_up=job.lost >= most_lost + CLEANING_TRIES)
        self._write_started(connection, [work for work in works.values() if work.job.is_new])
        return taken

    def _look_at_host(self, connection: Connection, taken: Taken, job: LeasedJob) -> None:
        look = prepare_host(connection, job)
        taken.decided.append(Finished(job, look.host_name, look.outcome))
        taken.messages.extend(look.messages)
        if job.is_new:
            begin = HOST_ACTIONS[job.kind]
            text = f"starting job: {begin.action} {look.host_name}"
            write_events(connection, [ActionEvent(job.id, begin.event_type, STARTED, text)])

    def _read_settings(self, connection: Connection) -> Configuration:
        now = time.monotonic()
        if self._settings is None or now - self._settings[0] > SETTINGS_FRESH_S:
            self._settings = now, read_configuration(connection)
        return self._settings[1]

    def _move_vms(self, connection: Connection, jobs: Sequence[LeasedJob]) -> None:
        by_kind: dict[JobKind, list[int]] = defaultdict(list)
        for job in jobs:
            if self._steps[job.kind].moves_vm(job):
                by_kind[job.kind].append(job.vm_id)
        for kind, vm_ids in by_kind.items():
            begin = self._steps[kind].begin
            move_states(connection, vm_ids, begin.sources, begin.state)

    def _sort(self, taken: Taken, job: LeasedJob, work: Assignment | None, *, given_up: bool) -> None:
        if work is None:
            gone = Failed(INTERNAL_ERROR, "The virtual machine no longer exists", Settlement())
            taken.decided.append(Finished(job, "", gone))
            return
        outcome = given_up_on(work) if given_up else self._steps[job.kind].at_once(work)
        if outcome is None:
            taken.assignments.append(work)
        else:
            taken.decided.append(Finished(job, work.name, outcome))

    def _write_started(self, connection: Connection, begun: Sequence[Assignment]) -> None:
        events = []
        for work in begun:
            begin = self._steps[work.job.kind].begin
            text = f"starting job: {begin.action} {work.name}"
            events.append(ActionEvent(work.job.id, begin.event_type, STARTED, text))
        if events:
            write_events(connection, events)


def _to_be_ended(job: LeasedJob, most_lost: int) -> LeasedJob:
    """The job with the order to clean up and fail; one that had it keeps its reason."""
    why = f"its worker ended abruptly {job.lost} times while it ran (job.lost.worker.max is {most_lost})"
    return replace(job, progress={OVERDUE: why, **job.progress})


def given_up_on(work: Assignment) -> Failed:
    """The failure of a job that cannot even be cleaned up after: what its VM holds stays held.

    The VM of a deployment is Expunging, and the sweeper has it removed; one that was to grow runs on with its old
    sizes, and one that was to get or lose a device runs on with it in its rows: the audit tells if its guest is
    otherwise. Another is in a state that nobody knows.
    """
    left = LEFT_BEHIND.get(work.job.kind, Settlement(VmState.UNKNOWN))
    why = why_overdue(work.job.progress)
    return Failed(INTERNAL_ERROR, f"VM {work.name}: {why}. What is left of it is not known", left)
