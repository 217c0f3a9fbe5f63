"""Starting a stopped VM: a host is claimed in the job, then the guest is made to run there.

A start that fails in the end leaves the VM Stopped, without a host; its volumes stay (reference section 8.16).
"""

from functools import partial
from threading import Semaphore

from sqlalchemy import Connection, Engine

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    INTERNAL_ERROR,
    Failed,
    GiveBack,
    LeaseLost,
    Outcome,
    Paused,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.starting import Starter, with_host
from bulkdeploy.provisioning.steps import OVERDUE, Begin, why_overdue
from bulkdeploy.scheduling.place import Place, claim_place, plan_stopped_vm
from bulkdeploy.scheduling.replace import NO_ROOM, replace_place
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.job_leases import DriverLimits
from bulkdeploy.store.jobs import LeasedJob, write_progress
from bulkdeploy.store.release import release_hosts

STOPPED = Settlement(VmState.STOPPED, GiveBack.HOST)
STILL_CLAIMED = Settlement(VmState.UNKNOWN)
PINS = ("pod_id", "cluster_id", "host_id")


class StartVirtualMachine:
    """Steps of ``JobKind.START``.

    The job's params may pin it: ``pod_id``, ``cluster_id``, ``host_id``; ``planner`` and ``consider_last_host``
    say how it is placed.
    """

    begin = Begin(
        EventType.VM_START, "starting Vm", frozenset({VmState.STOPPED, VmState.STARTING}), VmState.STARTING
    )

    def __init__(self, engine: Engine, planning: Semaphore, calls: DriverCalls, lease_seconds: float) -> None:
        self._engine, self._planning, self._lease_seconds = engine, planning, lease_seconds
        self._starter = starter_of_existing_vms(engine, planning, calls, lease_seconds)

    def moves_vm(self, job: LeasedJob) -> bool:
        """See JobSteps."""
        del job
        return True

    def at_once(self, work: Assignment) -> Outcome | None:
        """See JobSteps. A VM that runs already is a success."""
        if work.state is VmState.RUNNING:
            return Succeeded(Settlement())
        if work.state is not VmState.STARTING:
            return Failed(
                INTERNAL_ERROR, f"VM {work.name} cannot be started in state {work.state.value}", Settlement()
            )
        return None

    def run(self, work: Assignment) -> Outcome:
        """See JobSteps."""
        if work.host_id is None:
            if OVERDUE in work.job.progress:
                why = why_overdue(work.job.progress)
                return Failed(INTERNAL_ERROR, f"VM {work.name} did not start: {why}", STOPPED)
            with self._planning:
                placed = run_transaction(self._engine, partial(self._claim, work=work), CrashPoint.PLACE_COMMIT)
            if placed is None:
                return Failed(INSUFFICIENT_CAPACITY, f"VM {work.name} did not start: no host has room", STOPPED)
            if isinstance(placed, Paused):
                return placed
            work = placed
        return self._starter.run(work, pinned=any(pin in work.job.params for pin in PINS))

    def _claim(self, connection: Connection, *, work: Assignment) -> Assignment | Paused | None:
        place = _find(connection, work, frozenset())
        if place is None:
            return None
        claim_place(connection, place)
        if not write_progress(connection, work.job, work.job.progress, self._lease_seconds):
            raise LeaseLost(f"job {work.job.id} lost its lease while it was given a place")
        limits = DriverLimits.of(read_configuration(connection))
        return with_host(connection, read_assignment(connection, work.job), limits)


def _find(connection: Connection, work: Assignment, avoid_host_ids: frozenset[int]) -> Place | None:
    params = work.job.params
    pins = {pin: params[pin] for pin in PINS if pin in params}
    return plan_stopped_vm(
        connection,
        work.job.vm_id,
        avoid_host_ids=avoid_host_ids,
        planner=params.get("planner"),
        last_host_first=bool(params.get("consider_last_host")),
        **pins,
    )


def _another_place(connection: Connection, work: Assignment, avoid_host_ids: frozenset[int]) -> bool:
    """Give the old host back and claim another; where there is none the old claim stays for the caller to end."""
    problem = replace_place(
        connection,
        work.job.vm_id,
        give_back=lambda: release_hosts(connection, [work.job.vm_id]),
        find=lambda: _find(connection, work, avoid_host_ids) or NO_ROOM,
    )
    return problem is None


def starter_of_existing_vms(
    engine: Engine, planning: Semaphore, calls: DriverCalls, lease_seconds: float
) -> Starter:
    """Runs VMs that there were before their job: one that cannot be started is Stopped, and keeps its volumes."""
    return Starter(
        engine,
        planning,
        calls,
        lease_seconds,
        find_place=_another_place,
        failed=STOPPED,
        abandoned=STILL_CLAIMED,
        removes_volumes=False,
    )
