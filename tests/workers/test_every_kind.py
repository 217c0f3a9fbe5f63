"""Every kind of job, broken at every place on its way: it is repeated or undone, and the audit finds nothing.

Kinds are found as the product finds them, and so are the places: a kind that names too few or too many of them in
its file, or that nobody asks for here, fails.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.domain.jobs import InstanceType, JobStatus
from bulkdeploy.drivers.simulator.control import FaultKind, HangEffect, Step
from bulkdeploy.processes.failpoints import Failpoint, arm
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.kinds.virtual_machines.repair_virtual_machine import REPAIR
from bulkdeploy.provisioning.outcome import FinalState
from bulkdeploy.provisioning.progress import TOO_LATE
from bulkdeploy.provisioning.running.completion import SOURCES
from bulkdeploy.provisioning.running.job_runner import JobRunner, RunnerOptions
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.worker import build_worker
from tests.support.api.api_client import ApiClient
from tests.support.runs.properties import is_thorough
from tests.support.zones.fleet import Fleet
from tests.workers.job_requests import JOB_REQUESTS, JobRequest, World

OPTIONS = RunnerOptions(threads=2, lease_seconds=60, driver_timeout_s=0.5, commit_pace_s=0)
MOST_TRIES = 8
KINDS = pytest.mark.parametrize("kind", job_kinds().values(), ids=str)
OF_EVERY_JOB = {
    Failpoint.LEASE_COMMIT,
    Failpoint.RENEW_COMMIT,
    Failpoint.COMPLETION_COMMIT,
    Failpoint.RELEASE_COMMIT,
    Failpoint.WAKE_PUBLISH,
    Failpoint.WAKE_CLEAR,
}
TIME_IS_UP = (
    "UPDATE async_jobs SET progress = coalesce(progress, '{}') || jsonb_build_object('overdue', CAST(:why AS text))"
    " WHERE status = 0"
)
WORKERS_DIED = (
    "UPDATE async_jobs SET phase = 'running', lease_fence = 1, attempts = 1, started = now(), lost_leases = 6,"
    " lease_until = now() - interval '1 s' WHERE id = :job"
)
IT_IS_DUE = (
    "UPDATE async_jobs SET retry_at = now(),"
    " lease_until = CASE phase WHEN 'running' THEN now() - interval '1 s' END WHERE status = 0"
)
_context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True)
class Fault:
    """What a hypervisor does to so many of the next calls; None: to all."""

    step: Step
    kind: FaultKind
    effect: HangEffect | None = None
    times: int | None = 1


class Untouchable:
    """Drivers that nobody may ask for anything."""

    def driver_for(self, hypervisor: str) -> Any:
        """Complain."""
        raise AssertionError(f"somebody asked for the driver of {hypervisor}")


@pytest.fixture
def world(fleet: Fleet, client: ApiClient) -> Iterator[World]:
    """A world in which nothing is armed afterwards."""
    _context.set_forkserver_preload(["workers.app", "workers.sweeper", __name__])
    yield World(fleet, client)
    arm(None)


def test_every_kind_is_tried() -> None:
    """A kind is in these trials as soon as it is in the product."""
    assert set(JOB_REQUESTS) == set(job_kinds())


@pytest.mark.long
@KINDS
def test_what_its_file_says_is_so(world: World, kind: JobKind) -> None:
    """Instance, command, events, the state while it runs, and the result are those that it declares."""
    for request in JOB_REQUESTS[kind.name]:
        seen: set[str] = set()
        job = request(world)

        def look(place: str, job: int = job, seen: set[str] = seen) -> None:
            if place.startswith("driver."):
                seen.add(state_of(world, job))

        accepted = state_of(world, job)
        arm(look)
        finish(world, job, partial(run, world))
        arm(None)
        row = world.fleet.job(job)
        assert (row.status, row.instance_type, row.cmd) == (1, kind.instance_type, kind.command_class)
        assert row.result.startswith(f'{{"{kind.result}":')
        events = world.fleet.zone.rows(
            "SELECT event_type, state FROM events WHERE uuid = :job OR parent_uuid = :job", job=row.uuid
        )
        assert sorted(events) == [(kind.event_type, state) for state in ("Completed", "Scheduled", "Started")]
        assert seen <= {state_while_it_runs(kind, accepted)}


@pytest.mark.long
@KINDS
def test_a_worker_dies_anywhere(world: World, kind: JobKind) -> None:
    """Whatever the hypervisor did: who takes over ends the job, once, and nothing is lost, twice or left."""
    passed: set[str] = set()
    for request in JOB_REQUESTS[kind.name]:
        for faults in faults_of(kind):
            places = places_of(world, request, faults)
            for place in filter(is_tried, places - passed):
                die_there(world, request, faults, place)
            passed |= places
    points = {place.rpartition(".")[0] for place in passed}
    assert Failpoint.LEASE_COMMIT in points
    assert points - OF_EVERY_JOB == kind.failpoints


@pytest.mark.long
@KINDS
def test_it_is_undone_when_time_is_up(world: World, kind: JobKind) -> None:
    """A job that a hypervisor refuses until its time is over ends, and all is as it was before, or done."""
    for request in JOB_REQUESTS[kind.name]:
        for step in steps_of(kind):
            job = request_and_fail(world, request, [Fault(step, FaultKind.PERMANENT, times=None)])
            run(world, job)
            world.fleet.clear_faults()
            world.fleet.zone.change(TIME_IS_UP, why=TOO_LATE)
            finish(world, job, partial(run, world))


@pytest.mark.long
@KINDS
def test_a_job_ends_however_its_hypervisor_fails(world: World, kind: JobKind) -> None:
    """Transient and permanent errors alternate for ever: once its time is up it has a bounded number of tries."""
    world.fleet.set_value("job.cleanup.tries.max", MOST_TRIES // 2)
    job = JOB_REQUESTS[kind.name][0](world)
    for attempt in range(2 * MOST_TRIES):
        world.fleet.clear_faults()
        world.fleet.fault(Step.ANY, (FaultKind.TRANSIENT, FaultKind.PERMANENT)[attempt % 2])
        world.fleet.fault(Step.ANY, (FaultKind.PERMANENT, FaultKind.TRANSIENT)[attempt % 2], remaining=None)
        run(world, job)
        if world.fleet.job(job).status != JobStatus.IN_PROGRESS:
            break
        world.fleet.zone.change(TIME_IS_UP, why=TOO_LATE)
        world.fleet.zone.change(IT_IS_DUE)
        others = world.fleet.zone.rows("SELECT id FROM async_jobs WHERE status = 0 AND id <> :job", job=job)
        if others:
            world.fleet.run(*[row.id for row in others])
    assert world.fleet.job(job).status != JobStatus.IN_PROGRESS


@pytest.mark.long
@KINDS
def test_a_job_is_given_up_on(world: World, kind: JobKind) -> None:
    """Where worker after worker died, or none ever came, that is left which its file says; no driver is asked."""
    for request in JOB_REQUESTS[kind.name]:
        job = request(world)
        moved = state_while_it_runs(kind, state_of(world, job))
        world.fleet.zone.change(WORKERS_DIED, job=job)
        finish(world, job, partial(run, world, drivers=Untouchable()))
        assert "Its remains are unknown" in world.fleet.job(job).result
        assert state_of(world, job) == state_after(kind.if_abandoned, moved)
        job = request(world)
        before = state_of(world, job)
        world.fleet.zone.change("UPDATE async_jobs SET completed = completed - interval '1 day' WHERE status <> 0")
        world.fleet.zone.change("UPDATE async_jobs SET created = now() - interval '1 day' WHERE id = :job", job=job)
        world.fleet.sweeper().end_late()
        assert "never began" in world.fleet.job(job).result
        assert state_of(world, job) == state_after(kind.if_never_begun, before)
        if kind is REPAIR:
            repair(world, world.fleet.job(job).instance_uuid)
        world.fleet.assert_intact()


def state_of(world: World, job: int) -> str:
    """The state of the VM, or the resource state of the host, which a job works on."""
    row = world.fleet.job(job)
    table, column = "virtual_machines", "state"
    if row.instance_type == InstanceType.ZONE:
        table, column = "zones", "allocation_state"
    elif row.instance_type == InstanceType.HOST:
        table, column = "hosts", "resource_state"
    return str(world.fleet.zone.scalar(f"SELECT {column} FROM {table} WHERE id = :id", id=row.instance_id))


def state_while_it_runs(kind: JobKind, accepted: str) -> str:
    """The state in which a job has what it found in this one."""
    return accepted if kind.move is None or accepted not in kind.move.sources else kind.move.state


def state_after(final: FinalState, before: str) -> str:
    """The state in which the end of a job leaves what is in this one."""
    if final.state is None:
        return final.host_state or before
    return final.state if before in SOURCES[final.state] else before


def steps_of(kind: JobKind) -> list[Step]:
    """What hypervisors do in jobs of this kind."""
    return [step for step in Step if f"driver.{step}" in kind.failpoints]


def faults_of(kind: JobKind) -> list[list[Fault]]:
    """What hypervisors may do: nothing special, refuse, not answer, or refuse to take back what nobody heard of.

    The first comes first: what is passed without a fault is not passed again with one.
    """
    found: list[list[Fault]] = [[]]
    for step in steps_of(kind):
        refusal = Fault(step, FaultKind.PERMANENT)
        done, undone = (Fault(step, FaultKind.HANG, effect) for effect in (HangEffect.DONE, HangEffect.UNDONE))
        found += [[refusal], [done], [undone], [done, refusal]]
    return found


def request_and_fail(world: World, request: JobRequest, faults: Sequence[Fault]) -> int:
    """A job at whose first calls the hypervisor fails."""
    world.fleet.clear_faults()
    job = request(world)
    for fault in faults:
        world.fleet.fault(fault.step, fault.kind, remaining=fault.times, effect=fault.effect)
    return job


def places_of(world: World, request: JobRequest, faults: Sequence[Fault]) -> set[str]:
    """The places that a job passes."""
    places: set[str] = set()
    job = request_and_fail(world, request, faults)

    def watched(job: int) -> None:
        arm(places.add)
        run(world, job)
        arm(None)

    finish(world, job, watched)
    return places


def is_tried(place: str) -> bool:
    """Whether a worker dies there: after each commit, message and driver call; in a thorough run also before.

    Until the next one nothing is changed that outlives a process: who dies before it leaves what the last one left.
    """
    return place.endswith(".after") or place == f"{Failpoint.LEASE_COMMIT}.before" or is_thorough()


def die_there(world: World, request: JobRequest, faults: Sequence[Fault], place: str) -> None:
    """A worker dies at the place; another one goes on."""
    job = request_and_fail(world, request, faults)
    died = []

    def fatal(job: int) -> None:
        process = _context.Process(target=run_to_death, args=(world.fleet.settings, job, place))
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        died.append(process.exitcode != 0)

    finish(world, job, lambda job: run(world, job) if any(died) else fatal(job))
    assert any(died), f"nobody passed {place}"


def run_to_death(settings: Settings, job: int, place: str) -> None:
    """A worker that runs one job, if it comes so far."""

    def die(here: str) -> None:
        if here == place:
            os.kill(os.getpid(), signal.SIGKILL)

    arm(die)
    worker = build_worker(settings)
    runner = JobRunner(worker.engine, worker.job_queue, worker.drivers, OPTIONS, worker.decrypt, worker.power)
    runner.accept(job)
    runner.close()
    worker.close()


def run(world: World, job: int, **named: Any) -> None:
    """Run a job as far as it goes now."""
    with world.fleet.runner(options=OPTIONS, **named) as runner:
        runner.accept(job)


def repair(world: World, vm: UUID) -> None:
    """Repair a VM whose hypervisor works again, and that is to run."""
    world.fleet.clear_faults()
    if world.fleet.zone.scalar("SELECT state FROM virtual_machines WHERE uuid = :vm", vm=vm) == "Unknown":
        world.fleet.zone.change("UPDATE virtual_machines SET state = 'Running' WHERE uuid = :vm", vm=vm)
    world.done("repairVirtualMachine", id=vm)


def finish(world: World, job: int, run_job: Callable[[int], None]) -> None:
    """Run the job to its end, and all that it makes; that is its end however often its message comes again.

    A guest of which a failure says that its devices are not known has those of its VM after its next start. What
    was not repaired can be repaired again.
    """
    fleet = world.fleet
    for _ in range(MOST_TRIES):
        run_job(job)
        if fleet.job(job).status != JobStatus.IN_PROGRESS:
            break
        fleet.zone.change(IT_IS_DUE)
        others = fleet.zone.rows("SELECT id FROM async_jobs WHERE status = 0 AND id <> :job ORDER BY id", job=job)
        if others:
            fleet.run(*[row.id for row in others])
    ended = fleet.job(job)
    assert ended.status != JobStatus.IN_PROGRESS, ended
    run(world, job)
    assert fleet.job(job) == ended
    if (
        ended.kind == REPAIR.name
        and ended.status == JobStatus.FAILED
        and "Its remains are unknown" not in ended.result
    ):
        repair(world, ended.instance_uuid)
    if "It is unknown which devices its guest has" in ended.result:
        world.done("stopVirtualMachine", id=ended.instance_uuid)
        world.done("startVirtualMachine", id=ended.instance_uuid)
    fleet.assert_intact()
