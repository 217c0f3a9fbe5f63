"""Workers killed, paused and told to end in the middle of their jobs: nothing lost, nothing twice."""

import random
import time
from collections import Counter
from functools import partial

import pytest

from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import (
    Start,
    all_done,
    assert_all_run,
    owners,
    paused,
    slow_boots,
    under_way,
    unfinished,
)

pytestmark = pytest.mark.long


def test_a_killed_worker_loses_nothing(fleet: Fleet, start: Start) -> None:
    """Killed with -9 in the middle of its jobs: another worker takes over, and every VM runs once."""
    slow_boots(fleet, 300)
    start(*SWEEPER)
    first = start(*WORKER)
    fleet.deploy(60)
    wait_for(lambda: under_way(fleet) >= 8)
    first.kill()
    first.wait()
    assert unfinished(fleet) > 8
    start(*WORKER)
    wait_for(lambda: all_done(fleet))
    assert max(job.attempts for job in fleet.jobs()) > 1
    assert_all_run(fleet, 60)


def _works_or_is_done(fleet: Fleet, known: set[str]) -> bool:
    """Whether a worker has a lease that is not one of these, unless there is nothing left to do."""
    return all_done(fleet) or not owners(fleet) <= known


def test_workers_killed_again_and_again_under_faults(fleet: Fleet, start: Start) -> None:
    """Workers killed at random moments while hypervisors fail at random: every job ends, nothing is left over."""
    dice = random.Random(20260101)  # noqa: S311 - moments to kill at
    slow_boots(fleet, 150)
    fleet.fault(Step.ANY, rate=0.2)
    start(*SWEEPER)
    fleet.deploy(60)
    fleet.deploy(20, cluster="a-1")
    for _ in range(3):
        before = owners(fleet)
        victim = start(*WORKER)
        wait_for(partial(_works_or_is_done, fleet, before))
        time.sleep(dice.uniform(0, 0.8))
        victim.kill()
        victim.wait()
    start(*WORKER)
    wait_for(lambda: all_done(fleet))
    ends = Counter((job.status, vm.state) for job, vm in zip(fleet.jobs(), fleet.vms(), strict=True))
    assert set(ends) <= {(1, "Running"), (2, "Error")}
    assert len(fleet.guests()) == ends[1, "Running"] >= 60
    fleet.assert_intact()


def test_a_stopped_worker_finishes_what_it_has(fleet: Fleet, start: Start) -> None:
    """SIGTERM: what was begun is finished by this worker, what was not stays for others; it ends with 0."""
    slow_boots(fleet, 300)
    first = start(*WORKER)
    fleet.deploy(60)
    wait_for(lambda: under_way(fleet) >= 8)
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    assert under_way(fleet) == 0
    assert unfinished(fleet) > 0
    start(*WORKER)
    wait_for(lambda: all_done(fleet))
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert_all_run(fleet, 60)


def test_a_worker_that_slept_too_long_is_refused(fleet: Fleet, start: Start) -> None:
    """A worker stopped beyond its leases wakes up to find its jobs done by another, and changes nothing."""
    slow_boots(fleet, 500)
    start(*SWEEPER)
    first = start(*WORKER)
    fleet.deploy(8)
    wait_for(lambda: under_way(fleet) == 8)
    with paused(first):
        start(*WORKER)
        wait_for(lambda: all_done(fleet))
        finished = fleet.jobs()
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    assert fleet.jobs() == finished
    assert {job.attempts for job in finished} == {2}
    assert_all_run(fleet, 8)
