"""Deploying one VM: its rows and claims are there, now it is made to run.

A deployment that fails in the end gives back everything the VM holds; the VM stays visible in state Error
(reference section 5.2). One whose removal is not certain is left Expunging, with its claims, and the
sweeper has it removed.
"""

from threading import Semaphore

from sqlalchemy import Connection, Engine

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import (
    INTERNAL_ERROR,
    Failed,
    GiveBack,
    Outcome,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.starting import Starter
from bulkdeploy.provisioning.steps import Begin
from bulkdeploy.scheduling.replace import move_claim
from bulkdeploy.store.jobs import LeasedJob

FAILED = Settlement(VmState.ERROR, GiveBack.EVERYTHING)
ABANDONED = Settlement(VmState.EXPUNGING)
NOT_TO_BE_STARTED = Settlement()
START_VM = "startvm"


class DeployVirtualMachine:
    """Steps of ``JobKind.DEPLOY``."""

    begin = Begin(
        EventType.VM_CREATE, "deploying Vm", frozenset({VmState.STOPPED, VmState.STARTING}), VmState.STARTING
    )

    def __init__(self, engine: Engine, planning: Semaphore, calls: DriverCalls, lease_seconds: float) -> None:
        self._starter = Starter(
            engine,
            planning,
            calls,
            lease_seconds,
            find_place=_move_claim,
            failed=FAILED,
            abandoned=ABANDONED,
            removes_volumes=True,
        )

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps. A VM that is not to be started stays Stopped."""
        return not job.cancelled and job.params.get(START_VM, True)

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps."""
        if work.job.cancelled:
            return Failed(
                INTERNAL_ERROR, f"VM {work.name} was not deployed: its deployment was cancelled before", FAILED
            )
        if not work.job.params.get(START_VM, True):
            return Succeeded(NOT_TO_BE_STARTED)
        if work.state is not VmState.STARTING:
            return Failed(
                INTERNAL_ERROR, f"VM {work.name} cannot be deployed in state {work.state.value}", Settlement()
            )
        return None

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        return self._starter.run(work, pinned=work.pinned)


def _move_claim(connection: Connection, work: Assignment, avoid_host_ids: frozenset[int]) -> bool:
    return move_claim(connection, work.job.vm_id, avoid_host_ids)
