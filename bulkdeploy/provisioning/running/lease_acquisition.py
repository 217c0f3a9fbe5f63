"""The acquisition of leases for many jobs at once. Each job begins in the same transaction."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.provisioning.assignment import Work, WorkReader
from bulkdeploy.provisioning.job_kind import JobKind, JobSteps, Move
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, UNCHANGED, Failed, Outcome
from bulkdeploy.provisioning.progress import OVERDUE, why_overdue
from bulkdeploy.provisioning.running.completion import JOB_QUEUES, Finished
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.jobs.action_events import STARTED, ActionEvent, write_events
from bulkdeploy.store.jobs.job_leases import DriverLimits, LeaseHolder, hold_back, take_leases
from bulkdeploy.store.jobs.jobs import LeasedJob
from bulkdeploy.store.virtual_machines.guests import move_states

SETTINGS_FRESH_S = 1.0
"""Settings that operators change are read again after this."""

CLEANING_TRIES = 2
"""A job under which too many workers ended is only cleaned up after; if these tries end workers as well, it fails
without, and the sweeper has the VM removed some time later."""


CANCELLED_BEFORE = "the job was cancelled before it began"


@dataclass(frozen=True, slots=True)
class Acquired:
    """The result of a batch of lease requests.

    Attributes:
        works: the work that threads must do.
        decided: the jobs whose outcome the rows alone determined.
        refused: the ids of jobs that got no lease. If an id was requested twice, the second request is included.
    """

    works: list[Work] = field(default_factory=list)
    decided: list[Finished] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


class LeaseAcquisition:
    """The acquisition of leases for one worker process. Only one thread uses it.

    Args:
        steps: the steps of each kind of job, by the name of the kind.
        worker: the name of this worker in leases.
        lease_seconds: the duration of a lease without renewal, in seconds.
        quarantined: returns the number of this process's jobs whose workers ended abruptly too often.
    """

    def __init__(
        self,
        steps: Mapping[str, JobSteps[Any]],
        worker: str,
        lease_seconds: float,
        quarantined: Callable[[], int] = lambda: 0,
    ) -> None:
        self._steps, self._quarantined = steps, quarantined
        self._lease_holder = LeaseHolder(worker, lease_seconds, list(steps))
        self._reader = WorkReader()
        self._settings: tuple[float, Configuration] | None = None

    def acquire(self, connection: Connection, job_ids: Sequence[int]) -> Acquired:
        """Lease the jobs out of ``job_ids`` that may run now, begin them, and return the result."""
        settings = self._read_settings(connection)
        limits, capacity = DriverLimits.of(settings), 0 if self._quarantined() else 1
        wanted = set(job_ids)
        jobs = take_leases(connection, list(wanted), self._lease_holder, limits, crash_candidates=capacity)
        leased = {job.id for job in jobs}
        if leased != wanted:
            hold_back(connection, list(wanted - leased), self._lease_holder, limits, JOB_QUEUES)
        acquired = Acquired(refused=_refused(job_ids, leased))
        if not jobs:
            return acquired
        most_lost = settings.number("job.lost.worker.max")
        jobs = [job if job.lost < most_lost else _to_be_ended(job, most_lost) for job in jobs]
        self._move_vms(connection, jobs)
        works = self._reader.read(connection, jobs)
        for job in jobs:
            self._sort(acquired, job, works.get(job.id), given_up=job.lost >= most_lost + CLEANING_TRIES)
        self._write_started(connection, [work for work in works.values() if work.job.is_new])
        return acquired

    def _read_settings(self, connection: Connection) -> Configuration:
        now = time.monotonic()
        if self._settings is None or now - self._settings[0] > SETTINGS_FRESH_S:
            self._settings = now, read_configuration(connection)
        return self._settings[1]

    def _move_vms(self, connection: Connection, jobs: Sequence[LeasedJob]) -> None:
        by_move: dict[Move, list[int]] = defaultdict(list)
        for job in jobs:
            steps = self._steps[job.kind]
            if steps.kind.move is not None and not job.cancelled and steps.moves(job):
                by_move[steps.kind.move].append(job.instance_id)
        for move, vm_ids in by_move.items():
            move_states(connection, vm_ids, move.sources, move.state)

    def _sort(self, acquired: Acquired, job: LeasedJob, work: Work | None, *, given_up: bool) -> None:
        steps = self._steps[job.kind]
        if work is None:
            gone = Failed(INTERNAL_ERROR, "The object of this job no longer exists", UNCHANGED)
            acquired.decided.append(Finished(job, "", gone))
            return
        outcome = self._decide(steps, work, given_up=given_up)
        if outcome is None:
            acquired.works.append(work)
        else:
            acquired.decided.append(Finished(job, work.name, outcome))

    @staticmethod
    def _decide(steps: JobSteps[Any], work: Work, *, given_up: bool) -> Outcome | None:
        """Return the outcome of a job that needs no driver call, or None."""
        if work.job.cancelled:
            return steps.failed(work, INTERNAL_ERROR, CANCELLED_BEFORE, steps.kind.if_never_begun)
        return given_up_on(steps.kind, work) if given_up else steps.at_once(work)

    def _write_started(self, connection: Connection, begun: Sequence[Work]) -> None:
        if begun:
            write_events(connection, [self._started(work) for work in begun])

    def _started(self, work: Work) -> ActionEvent:
        kind = self._steps[work.job.kind].kind
        return ActionEvent(work.job.id, kind.event_type, STARTED, f"starting job: {kind.describe(work.name)}")


def _refused(job_ids: Sequence[int], leased: Iterable[int]) -> list[int]:
    """Return the ids that got no lease, and every repetition of an id."""
    first = set(leased)
    refused = []
    for job_id in job_ids:
        if job_id in first:
            first.discard(job_id)
        else:
            refused.append(job_id)
    return refused


def _to_be_ended(job: LeasedJob, most_lost: int) -> LeasedJob:
    """Return the job marked as OVERDUE, so that it cleans up and fails. An existing reason is kept."""
    why = f"its worker ended abruptly {job.lost} times while it ran (job.lost.worker.max is {most_lost})"
    return replace(job, progress={OVERDUE: why, **job.progress})


def given_up_on(kind: JobKind, work: Work) -> Failed:
    """Return the failure of a job that is given up without clean-up.

    Its kind declares the final state for this case.
    """
    why = why_overdue(work.job.progress)
    return Failed(INTERNAL_ERROR, f"{work.label}: {why}. Its remains are unknown", kind.if_abandoned)
