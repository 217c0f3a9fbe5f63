"""What each kind of job consists of: how it begins, what is known without a driver, and the driver's part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.outcome import Outcome, Paused
from bulkdeploy.store.jobs import LeasedJob

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0

PAUSES = "pauses"
FAILURE = "failure"
OVERDUE = "overdue"
"""Keys of a job's progress: pauses made, the failure being cleaned up after, and why it must end now."""

TOO_LATE = "it took longer than job.cancel.threshold.minutes"


@dataclass(frozen=True, slots=True)
class Begin:
    """How a job begins, in the transaction that takes its lease.

    Attributes:
        event_type: the type of the action's events, such as ``VM.START``.
        action: the action in words, for event descriptions.
        sources, state: a VM in one of ``sources`` moves to ``state``.
    """

    event_type: EventType
    action: str
    sources: frozenset[VmState]
    state: VmState


class JobSteps(Protocol):
    """One kind of job. Implementations hold no state of a job and are shared by all threads."""

    begin: Begin

    def moves_vm(self, job: LeasedJob) -> bool:
        """Whether taking the lease moves the VM as ``begin`` says."""

    def at_once(self, work: Assignment) -> Outcome | None:
        """The outcome where rows alone decide it; None where ``run`` is needed."""

    def run(self, work: Assignment) -> Outcome:
        """The driver's part; blocks.

        Raises:
            LeaseLost: stop, and write nothing.
        """


def pause(work: Assignment, failure: DriverError | None) -> Paused:
    """Try again later, each time a little later; ``failure`` is what the next try cleans up after.

    What the job noted since ``work`` was read stays as it is: an error may come from anywhere.
    """
    made = int(work.job.progress.get(PAUSES, 0))
    progress: dict[str, Any] = {PAUSES: made + 1}
    if failure is not None:
        progress[FAILURE] = as_progress(failure)
    return Paused(min(FIRST_PAUSE_S * 2**made, LONGEST_PAUSE_S), progress)


def why_overdue(progress: Mapping[str, Any]) -> str:
    """Why a job whose progress has OVERDUE must end; the release before this one noted only that it must."""
    why = progress[OVERDUE]
    return why if isinstance(why, str) else TOO_LATE


def as_progress(failure: DriverError) -> dict[str, Any]:
    """A driver's failure as JSON."""
    return {
        "step": failure.step,
        "host": failure.host,
        "reason": failure.reason,
        "transient": failure.transient,
    }


def earlier_failure(progress: Mapping[str, Any]) -> DriverError | None:
    """The failure that an earlier try could not clean up after."""
    noted = progress.get(FAILURE)
    if noted is None:
        return None
    return DriverError(noted["step"], noted["host"], noted["reason"], transient=noted["transient"])
