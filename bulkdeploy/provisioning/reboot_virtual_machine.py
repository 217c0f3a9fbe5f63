"""Rebooting a VM: it is stopped and started where it is; where it does not start again, elsewhere.

A worker that takes over does both again: a guest that came up meanwhile goes down once more.
"""

from threading import Semaphore

from sqlalchemy import Engine

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, RESOURCE_UNAVAILABLE, Failed, Outcome, Settlement
from bulkdeploy.provisioning.start_virtual_machine import starter_of_existing_vms
from bulkdeploy.provisioning.starting import AVOID
from bulkdeploy.provisioning.steps import FAILURE, OVERDUE, Begin, pause
from bulkdeploy.provisioning.stop_virtual_machine import left_by, must_ask_again
from bulkdeploy.store.jobs import LeasedJob


class RebootVirtualMachine:
    """Steps of ``JobKind.REBOOT``; params: ``forced``, its power is cut.

    One that could not be stopped runs on. One that could be stopped and not started is Stopped, without a host.
    """

    begin = Begin(
        EventType.VM_REBOOT, "rebooting Vm", frozenset({VmState.RUNNING, VmState.STARTING}), VmState.STARTING
    )

    def __init__(self, engine: Engine, planning: Semaphore, calls: DriverCalls, lease_seconds: float) -> None:
        self._calls = calls
        self._starter = starter_of_existing_vms(engine, planning, calls, lease_seconds)

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps."""
        del job
        return True

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps."""
        if work.state is VmState.STARTING:
            return None
        return Failed(
            INTERNAL_ERROR, f"VM {work.name} cannot be rebooted in state {work.state.value}", Settlement()
        )

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        if not work.job.progress.keys() & {FAILURE, AVOID, OVERDUE}:
            failure = self._calls.stop(work, forced=bool(work.job.params.get("forced")))
            if failure is not None and must_ask_again(work, failure):
                return pause(work, None)
            if failure is not None:
                code = RESOURCE_UNAVAILABLE if failure.transient else INTERNAL_ERROR
                return Failed(code, f"VM {work.name} was not rebooted: {failure}", left_by(failure))
        return self._starter.run(work, pinned=False)
