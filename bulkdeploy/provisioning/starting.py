"""Making a VM run: on the host it has claimed, else, if it may move, on another one.

Deploying and starting share this. What a failed try left is removed before the VM gets another place or
the job ends; while it cannot be removed, the job waits and the claims stay.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Semaphore
from typing import Any

from sqlalchemy import Connection, Engine

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.held_leases import keep_lease
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    RESOURCE_UNAVAILABLE,
    Failed,
    LeaseLost,
    Outcome,
    Paused,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.steps import FAILURE, OVERDUE, TOO_LATE, earlier_failure, pause, why_overdue
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.job_leases import DriverLimits, change_host
from bulkdeploy.store.jobs import write_progress

AVOID = "avoid"
"""Key of a job's progress: ids of the hosts that failed."""

RUNNING = Settlement(VmState.RUNNING, volumes_ready=True)

FindPlace = Callable[[Connection, Assignment, frozenset[int]], bool]
"""Claim a place for the VM outside these hosts and write it into its rows; False: there is none."""


class Starter:
    """Runs VMs for one kind of job. Safe to share between threads.

    Args:
        engine: for finding another place; its transactions are short.
        planning: held while a place is looked for.
        calls: the drivers.
        lease_seconds: how long finding another place prolongs the lease.
        find_place: how this kind of job finds a place.
        failed: what is left of a VM that could not be started, once nothing of it is left on a hypervisor.
        abandoned: what is left of it when even that could not be reached in time.
        removes_volumes: a failed try removes the volumes, too: they are as new as the VM.
    """

    def __init__(
        self,
        engine: Engine,
        planning: Semaphore,
        calls: DriverCalls,
        lease_seconds: float,
        *,
        find_place: FindPlace,
        failed: Settlement,
        abandoned: Settlement,
        removes_volumes: bool,
    ) -> None:
        self._engine, self._planning = engine, planning
        self._calls, self._lease_seconds = calls, lease_seconds
        self._find_place, self._failed, self._abandoned = find_place, failed, abandoned
        self._removes_volumes = removes_volumes

    def run(self, work: Assignment, *, pinned: bool) -> Outcome:
        """Run the VM; ``pinned``: on its host or nowhere.

        Raises:
            LeaseLost: see DriverCalls.
        """
        if OVERDUE in work.job.progress:
            return self._give_up(work)
        began = time.monotonic()
        failure = earlier_failure(work.job.progress)
        if failure is None:
            failure = self._calls.run(work)
        while failure is not None:
            keep_lease(self._engine, work.job, self._lease_seconds)
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
        """The VM at another place, or why there is none; paused: it has one, and must wait for its turn there.

        ``began``: when this try began, by ``time.monotonic``.
        """
        if pinned:
            why = f"{failure}; it is pinned to its place and was not tried elsewhere"
            return self._failure(work, RESOURCE_UNAVAILABLE, why)
        with self._planning:
            move = partial(self._move, work=work, failure=failure, began=began)
            return run_transaction(self._engine, move, CrashPoint.REPLACE_COMMIT)

    def _move(
        self, connection: Connection, *, work: Assignment, failure: DriverError, began: float
    ) -> Assignment | Failed | Paused:
        configuration = read_configuration(connection)
        if time.monotonic() - began > 60 * configuration.number("job.cancel.threshold.minutes"):
            return self._failure(work, RESOURCE_UNAVAILABLE, f"{failure}; {TOO_LATE}")
        avoid = {*work.job.progress.get(AVOID, ()), *(() if work.host_id is None else (work.host_id,))}
        most = configuration.number("start.retry")
        if len(avoid) > most:
            why = f"{failure}; gave up after {len(avoid)} hosts (start.retry is {most})"
            return self._failure(work, RESOURCE_UNAVAILABLE, why)
        if not self._find_place(connection, work, frozenset(avoid)):
            why = f"{failure}; no other host has room for it ({len(avoid)} tried)"
            return self._failure(work, INSUFFICIENT_CAPACITY, why)
        progress: dict[str, Any] = {**work.job.progress, AVOID: sorted(avoid)}
        progress.pop(FAILURE, None)
        if not write_progress(connection, work.job, progress, self._lease_seconds):
            raise LeaseLost(f"job {work.job.id} lost its lease while it was given another place")
        return with_host(
            connection,
            read_assignment(connection, replace(work.job, progress=progress)),
            DriverLimits.of(configuration),
        )

    def _give_up(self, work: Assignment) -> Failed:
        """Time is up: remove what is there; what cannot be removed now keeps its claims until it can."""
        why = why_overdue(work.job.progress)
        earlier = earlier_failure(work.job.progress)
        if earlier is not None:
            why = f"{earlier}; {why}"
        left = self._calls.remove(work, with_volumes=self._removes_volumes)
        if left is None:
            return self._failure(work, RESOURCE_UNAVAILABLE, why)
        text = f"VM {work.name} did not start: {why}. What is left of it is still being removed: {left}"
        return Failed(RESOURCE_UNAVAILABLE, text, self._abandoned)

    def _failure(self, work: Assignment, code: int, why: str) -> Failed:
        return Failed(code, f"VM {work.name} did not start: {why}", self._failed)


def with_host(connection: Connection, work: Assignment, limits: DriverLimits) -> Assignment | Paused:
    """The job, about to go on with the host it has just claimed; paused where it must wait for its turn there."""
    if work.host_id is None or change_host(connection, work.job, work.host_id, limits):
        return work
    return Paused(0.0, work.job.progress)
