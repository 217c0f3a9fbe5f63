"""Destroying a VM: without ``expunge`` it is stopped and can be looked at for ``expunge.delay``; with it, it goes.

Expunging insists: a hypervisor that does not answer is asked again until ``job.cancel.threshold.minutes`` are
over; then the job fails, the VM stays Expunging with its claims, and the sweeper makes a new job.
"""

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
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
from bulkdeploy.provisioning.stop_virtual_machine import MAY_RUN, left_by, must_ask_again
from bulkdeploy.store.jobs import LeasedJob

DESTROYED = Settlement(VmState.DESTROYED, GiveBack.COMPUTE)
EXPUNGED = Settlement(VmState.EXPUNGING, GiveBack.EVERYTHING, removed=True)
STILL_THERE = Settlement(VmState.EXPUNGING)
EXPUNGE, VOLUME_IDS = "expunge", "volume_ids"
EXPUNGEABLE = frozenset({VmState.DESTROYED, VmState.EXPUNGING, VmState.ERROR})


class DestroyVirtualMachine:
    """Steps of ``JobKind.DESTROY``; params: ``expunge``; ``volume_ids``, which ``settling`` deletes in the end."""

    begin = Begin(EventType.VM_DESTROY, "destroying Vm", MAY_RUN, VmState.STOPPING)

    def __init__(self, calls: DriverCalls) -> None:
        self._calls = calls

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps. Only a VM that may run moves; another keeps its state until it is gone."""
        del job
        return True

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps. A VM that is destroyed already is a success, unless it is to be expunged."""
        expunge = bool(work.job.params.get(EXPUNGE))
        if not expunge and work.state in (VmState.DESTROYED, VmState.EXPUNGING):
            return Succeeded(Settlement())
        return None

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        return self._expunge(work) if work.job.params.get(EXPUNGE) else self._destroy(work)

    def _destroy(self, work: Assignment) -> Outcome:
        failure = self._calls.stop(work, forced=True)
        if failure is None:
            return Succeeded(DESTROYED)
        if must_ask_again(work, failure):
            return pause(work, None)
        code = RESOURCE_UNAVAILABLE if failure.transient else INTERNAL_ERROR
        return Failed(code, f"VM {work.name} was not destroyed: {failure}", left_by(failure))

    def _expunge(self, work: Assignment) -> Outcome:
        failure = self._calls.remove(work, with_volumes=True)
        if failure is None:
            return Succeeded(EXPUNGED)
        if failure.transient and OVERDUE not in work.job.progress:
            return pause(work, failure)
        return Failed(RESOURCE_UNAVAILABLE, f"VM {work.name} was not expunged: {failure}", STILL_THERE)


class ExpungeVirtualMachine(DestroyVirtualMachine):
    """Steps of ``JobKind.EXPUNGE``; params: ``expunge``, true. What was recovered meanwhile is left alone."""

    begin = Begin(EventType.VM_EXPUNGE, "expunging Vm", frozenset(), VmState.EXPUNGING)

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps."""
        if work.state in EXPUNGEABLE:
            return None
        return Failed(
            INTERNAL_ERROR, f"VM {work.name} cannot be expunged in state {work.state.value}", Settlement()
        )
