"""The shared steps that start a VM: on its claimed host or, if the VM may move, on another host.

All kinds that start VMs use these steps. The remains of a failed attempt are removed before the VM gets another
host or the job ends. While they cannot be removed, the job waits and the claims are kept. If all other hosts failed
only for reasons that may pass, the job waits with a claim and tries these hosts again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from bulkdeploy.domain.jobs import FIRST_HOST
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.failed_tries import FailedTries
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.job_kind import JobKind, StepTools
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    NOTHING_EXCLUDED,
    RESOURCE_UNAVAILABLE,
    Failed,
    FinalState,
    Outcome,
    Paused,
    Succeeded,
)
from bulkdeploy.provisioning.progress import OVERDUE, TOO_LATE, earlier_failure, pause, save_progress, why_overdue
from bulkdeploy.provisioning.stopping import STOPPED
from bulkdeploy.scheduling.place import NoPlace, Place, plan_stopped_vm
from bulkdeploy.scheduling.replace import replace_place
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.jobs.job_leases import DriverLimits, change_host
from bulkdeploy.store.ledger.release import release_hosts

REPLACE_COMMIT = "replace.commit"
STARTER_FAILPOINTS = frozenset(
    {Failpoint.DRIVER_BOOT, Failpoint.KEEP_COMMIT, Failpoint.DRIVER_DELETE, REPLACE_COMMIT}
)

RUNNING = FinalState(VmState.RUNNING, volumes_ready=True)

PINS = ("pod_id", "cluster_id", "host_id")
"""Params of a job that may only start its VM there."""

FindPlace = Callable[[Connection, Assignment, frozenset[int]], NoPlace | None]
"""Claim a place for the VM outside these hosts and write it into its rows; else why there is none."""


class Starter:
    """The steps that start VMs for one kind of job. It is thread-safe.

    If the clean-up of a failed start is not possible in time, the VM gets the state ``if_abandoned`` of the kind.

    Args:
        kind: the kind.
        tools: the objects that the steps use.
        find_place: finds a host and pools for the VM, as this kind of job requires.
        failed: the final state of a VM that could not be started and of which no hypervisor stores anything.
        removes_volumes: whether a failed attempt also deletes the volumes, because they were created with the VM.
    """

    def __init__(
        self, kind: JobKind, tools: StepTools, *, find_place: FindPlace, failed: FinalState, removes_volumes: bool
    ) -> None:
        self._kind, self._tools, self._calls = kind, tools, tools.calls
        self._find_place, self._failed, self._removes_volumes = find_place, failed, removes_volumes

    def run(self, work: Assignment, *, pinned: bool, leaves_host: DriverError | None = None) -> Outcome:
        """Start the VM, and return the outcome. With ``pinned``, only its current host is tried.

        ``leaves_host`` is the reason why the VM is started on another host without a try on its current host.

        Raises:
            LeaseLost: another worker has the job.
        """
        if OVERDUE in work.job.progress:
            return self._give_up(work)
        began = time.monotonic()
        failure = leaves_host or earlier_failure(work.job.progress)
        if failure is None:
            failure = self._calls.run(work)
        while failure is not None:
            keep_lease(self._tools.engine, work.job, self._tools.lease_seconds)
            if self._calls.remove(work, with_volumes=self._removes_volumes) is not None:
                return pause(work, failure)
            moved = self._elsewhere(work, failure, began, pinned=pinned)
            if isinstance(moved, Failed | Paused):
                return moved
            work, failure = moved, self._calls.run(moved)
        return Succeeded(RUNNING)

    def _elsewhere(
        self, work: Assignment, failure: DriverError, began: float, *, pinned: bool
    ) -> Assignment | Failed | Paused:
        """Claim another host for the VM.

        Returns its new assignment, a pause before the next attempt, or the failure.

        Args:
            work: the VM, of which nothing is left on its host.
            failure: the failure of its last attempt.
            began: the time at which this process began with the job, by ``time.monotonic``.
            pinned: whether no other host may be tried.
        """
        if pinned:
            why = f"{failure}; the VM is bound to its place, so no other host was tried"
            return self._failure(work, RESOURCE_UNAVAILABLE, why)
        if failure.on_any_host:
            why = f"{failure}; no other host was tried, because the reason applies to all hosts"
            return self._failure(work, RESOURCE_UNAVAILABLE, why)
        move = partial(self._move, work=work, failure=failure, began=began)
        return run_transaction(self._tools.engine, move, REPLACE_COMMIT, during=self._tools.planning)

    def _move(
        self, connection: Connection, *, work: Assignment, failure: DriverError, began: float
    ) -> Assignment | Failed | Paused:
        configuration = read_configuration(connection)
        if time.monotonic() - began > 60 * configuration.number("job.cancel.threshold.minutes"):
            return self._failure(work, RESOURCE_UNAVAILABLE, f"{failure}; {TOO_LATE}")
        tries = FailedTries.of(work.job.progress).add(work.host_id, failure)
        most = configuration.number("start.retry")
        if tries.count > most:
            why = f"{failure}; gave up after {tries.count} tries (start.retry is {most})"
            return self._failure(work, RESOURCE_UNAVAILABLE, why)
        problem = self._find_place(connection, work, tries.avoided)
        is_later = problem is not None and tries.may_forget
        if is_later:
            tries = tries.forget_passing()
            problem = None if failure.may_pass else self._find_place(connection, work, tries.avoided)
        if problem is not None:
            why = f"{failure}; then {problem.why} ({tries.count} tried)"
            return self._failure(work, INSUFFICIENT_CAPACITY, why, problem.excluded)
        job = save_progress(connection, work.job, tries.noted_in(work.job.progress), self._tools.lease_seconds)
        if is_later:
            return pause(replace(work, job=job), None)
        return with_host(connection, read_assignment(connection, job), DriverLimits.of(configuration))

    def _give_up(self, work: Assignment) -> Failed:
        """Remove the guest of an overdue job, and return the failure of the job.

        If the guest cannot be removed now, the VM keeps its claims until the guest is removed.
        """
        why = why_overdue(work.job.progress)
        earlier = earlier_failure(work.job.progress)
        if earlier is not None:
            why = f"{earlier}; {why}"
        left = self._calls.remove(work, with_volumes=self._removes_volumes)
        if left is None:
            return self._failure(work, RESOURCE_UNAVAILABLE, why)
        text = f"VM {work.name} did not start: {why}. Its remains are still being removed: {left}"
        return Failed(RESOURCE_UNAVAILABLE, text, self._kind.if_abandoned)

    def _failure(
        self, work: Assignment, code: int, why: str, excluded: Mapping[str, int] = NOTHING_EXCLUDED
    ) -> Failed:
        return Failed(code, f"VM {work.name} did not start: {why}", self._failed, excluded)


def with_host(connection: Connection, work: Assignment, limits: DriverLimits) -> Assignment | Paused:
    """Record the newly claimed host in the job's row, and return the assignment.

    Returns Paused if the job must wait because the limit of driver calls on that host is reached.
    """
    if work.host_id is None or change_host(connection, work.job, work.host_id, limits):
        return work
    return Paused(0.0, work.job.progress)


def find_stopped(connection: Connection, work: Assignment, avoid_host_ids: frozenset[int]) -> Place | NoPlace:
    """Find a host for a VM without a claim, according to the parameters of its job.

    Returns NoPlace if there is none.
    """
    params = work.job.params
    pins = {pin: params[pin] for pin in PINS if pin in params}
    return plan_stopped_vm(
        connection,
        work.vm_id,
        avoid_host_ids=avoid_host_ids,
        planner=params.get("planner"),
        last_host_first=bool(params.get("consider_last_host")),
        first_host_id=params.get(FIRST_HOST),
        **pins,
    )


def _another_place(connection: Connection, work: Assignment, avoid_host_ids: frozenset[int]) -> NoPlace | None:
    """Replace the VM's claims by claims on another host. Return None, or the reason if there is no other host.

    If there is none, the old claim is kept, and the caller releases it.
    """
    return replace_place(
        connection,
        work.vm_id,
        give_back=lambda: release_hosts(connection, [work.vm_id]),
        find=lambda: find_stopped(connection, work, avoid_host_ids),
    )


def starter_of_existing_vms(kind: JobKind, tools: StepTools) -> Starter:
    """Return the starter for VMs that existed before their job.

    If such a VM cannot be started, it becomes Stopped and keeps its volumes.
    """
    return Starter(kind, tools, find_place=_another_place, failed=STOPPED, removes_volumes=False)
