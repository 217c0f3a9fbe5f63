"""Stopping a VM: the guest leaves its host, then the claim on the host is given back."""

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import (
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    Failed,
    GiveBack,
    Outcome,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.steps import OVERDUE, Begin, pause
from bulkdeploy.store.jobs import LeasedJob

STOPPED = Settlement(VmState.STOPPED, GiveBack.HOST)
STILL_RUNNING = Settlement(VmState.RUNNING)
MAY_STILL_RUN = Settlement(VmState.UNKNOWN)
MAY_RUN = frozenset({VmState.RUNNING, VmState.STOPPING, VmState.UNKNOWN})


class StopVirtualMachine:
    """Steps of ``JobKind.STOP``.

    A stop that is refused leaves the VM Running with its claim, forced or not: a host whose guest may still run
    has no room for another. One that is not answered may have been done, and is asked for again.
    """

    begin = Begin(EventType.VM_STOP, "stopping Vm", MAY_RUN, VmState.STOPPING)

    def __init__(self, calls: DriverCalls) -> None:
        self._calls = calls

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps."""
        del job
        return True

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps. A VM that is stopped already is a success."""
        if work.state is VmState.STOPPED:
            return Succeeded(Settlement())
        if work.state is not VmState.STOPPING:
            return Failed(
                INTERNAL_ERROR, f"VM {work.name} cannot be stopped in state {work.state.value}", Settlement()
            )
        return None

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        failure = self._calls.stop(work, forced=bool(work.job.params.get("forced")))
        if failure is None:
            return Succeeded(STOPPED)
        if must_ask_again(work, failure):
            return pause(work, None)
        code = RESOURCE_UNAVAILABLE if failure.transient else INTERNAL_ERROR
        return Failed(code, f"VM {work.name} was not stopped: {failure}", left_by(failure))


def must_ask_again(work: Assignment, failure: DriverError) -> bool:
    """Whether nobody knows if the guest still runs, and there is time to find out by asking again."""
    return failure.unanswered and OVERDUE not in work.job.progress


def left_by(failure: DriverError) -> Settlement:
    """What a stop that failed for good leaves: the claim stays in any case."""
    return MAY_STILL_RUN if failure.unanswered else STILL_RUNNING
