"""Taking leases: many jobs at once, each begun in the same transaction."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from bulkdeploy.domain.jobs import HOST_KINDS, JobKind
from bulkdeploy.provisioning.assignment import Assignment, AssignmentReader
from bulkdeploy.provisioning.host_maintenance import HOST_ACTIONS, prepare_host
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, Failed, Settlement
from bulkdeploy.provisioning.settling import Finished
from bulkdeploy.provisioning.steps import JobSteps
from bulkdeploy.queue.job_queue import JobMessage
from bulkdeploy.store.action_events import STARTED, ActionEvent, write_events
from bulkdeploy.store.guests import move_states
from bulkdeploy.store.jobs import LeasedJob, hold_back_blocked, take_leases


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
    """

    def __init__(self, steps: Mapping[JobKind, JobSteps], worker: str, lease_seconds: float) -> None:
        self._steps, self._worker, self._lease_seconds = steps, worker, lease_seconds
        self._reader = AssignmentReader()

    def take(self, connection: Connection, job_ids: Sequence[int]) -> Taken:
        """Lease what may be run, and begin it; a job asked for twice is refused once."""
        wanted = set(job_ids)
        jobs = take_leases(connection, list(wanted), self._worker, self._lease_seconds)
        if len(jobs) < len(wanted):
            hold_back_blocked(connection, list(wanted - {job.id for job in jobs}))
        taken = Taken(refused=len(job_ids) - len(jobs))
        if not jobs:
            return taken
        for job in jobs:
            if job.kind in HOST_KINDS:
                self._look_at_host(connection, taken, job)
        jobs = [job for job in jobs if job.kind not in HOST_KINDS]
        self._move_vms(connection, jobs)
        works = self._reader.read(connection, jobs)
        for job in jobs:
            self._sort(taken, job, works.get(job.id))
        self._write_started(connection, [work for work in works.values() if work.job.attempts == 1])
        return taken

    def _look_at_host(self, connection: Connection, taken: Taken, job: LeasedJob) -> None:
        look = prepare_host(connection, job)
        taken.decided.append(Finished(job, look.host_name, look.outcome))
        taken.messages.extend(look.messages)
        if job.attempts == 1:
            begin = HOST_ACTIONS[job.kind]
            text = f"starting job: {begin.action} {look.host_name}"
            write_events(connection, [ActionEvent(job.id, begin.event_type, STARTED, text)])

    def _move_vms(self, connection: Connection, jobs: Sequence[LeasedJob]) -> None:
        by_kind: dict[JobKind, list[int]] = defaultdict(list)
        for job in jobs:
            if self._steps[job.kind].moves_vm(job):
                by_kind[job.kind].append(job.vm_id)
        for kind, vm_ids in by_kind.items():
            begin = self._steps[kind].begin
            move_states(connection, vm_ids, begin.sources, begin.state)

    def _sort(self, taken: Taken, job: LeasedJob, work: Assignment | None) -> None:
        if work is None:
            gone = Failed(INTERNAL_ERROR, "The virtual machine no longer exists", Settlement())
            taken.decided.append(Finished(job, "", gone))
            return
        outcome = self._steps[job.kind].at_once(work)
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
