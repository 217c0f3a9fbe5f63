"""``make test-front``: 1,000 VMs through two whole stacks, killed and cut; what was called for each VM."""

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.provisioning.job_runner import RunnerOptions
from tests.chaos.proxy import Proxy
from tests.cloudstack.stacks import (
    Upstream,
    assert_equal_on_both_sides,
    calls_of,
    front_settings,
    front_stack,
    proxied,
    run_to_the_end,
    upstream_stack,
)
from tests.conftest import unused_redis_database
from tests.support.processes.programs import BULKDEPLOY, program
from tests.support.processes.services import database_clone
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database
from tests.workers.processes import all_done, slow_boots

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

VMS = int(os.environ.get("FRONT_VMS", "1000"))
KILLS = int(os.environ.get("FRONT_KILLS", "5"))
CUTS = int(os.environ.get("FRONT_CUTS", "40"))
AT_ONCE = RunnerOptions(threads=64, lease_seconds=60, driver_timeout_s=600)
LOSING = 0.2
"""Of the time in which connections break, the part in which all answers are lost."""

SMALLER_OFFERING = "UPDATE service_offerings SET cpu_mhz = 250 WHERE name = 'Small'"
"""The zone has room for 652 VMs of 500 MHz."""

MOST_DEPLOYS, MOST_LISTS = 1.0, 0.2
"""Calls for each VM, where nothing breaks."""


@pytest.fixture
def upstream(fleet: Fleet, tmp_path: Path) -> Iterator[Upstream]:
    """The stack behind."""
    fleet.zone.change(SMALLER_OFFERING)
    with upstream_stack(fleet, tmp_path / "upstream.log", worker_threads=64) as made:
        yield made


@pytest.fixture
def between(upstream: Upstream) -> Iterator[tuple[Proxy, str]]:
    """What goes between the two."""
    with proxied(upstream) as made:
        yield made


@pytest.fixture
def front(
    between: tuple[Proxy, str],
    upstream: Upstream,
    postgres_url: str,
    template_database: str,
    request: pytest.FixtureRequest,
) -> Iterator[Fleet]:
    """The stack in front."""
    redis = unused_redis_database(request.config)
    with (
        database_clone(postgres_url, template_database) as url,
        front_stack(upstream, url, redis, url=between[1], jobs_at_once=64) as made,
    ):
        made.zone.change(SMALLER_OFFERING)
        yield made


def assert_all_done(front: Fleet, upstream: Upstream) -> None:
    """Every VM runs, once, where the front says."""
    assert {job.status for job in front.jobs()} == {JobStatus.SUCCEEDED}
    assert_equal_on_both_sides(front, upstream, VMS)


def has_vms(upstream: Upstream, count: int) -> bool:
    """Whether so many VMs are there, or were."""
    return len(upstream.fleet.vms()) >= count


@contextmanager
def measured(front: Fleet, capsys: pytest.CaptureFixture[str], what: str) -> Iterator[None]:
    """Say what the VMs took: time, CPU of this process (the front, and what is between), calls upstream."""
    began, cpu = time.monotonic(), time.process_time()
    yield
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    calls = calls_of(front)
    shares = ", ".join(f"{calls[name] / VMS:.3f} {name}" for name in sorted(calls))
    with capsys.disabled():
        sys.stdout.write(
            f"\n{what}: {VMS} VMs in {wall:.1f} s, {1000 * cpu / VMS:.1f} ms of CPU each;"
            f" calls for each: {shares}\n"
        )


def test_calls_for_each_vm(front: Fleet, upstream: Upstream, capsys: pytest.CaptureFixture[str]) -> None:
    """At most one deploy call, and a fifth of a list call, where nothing breaks."""
    with measured(front, capsys, "undisturbed"):
        front.deploy(VMS)
        run_to_the_end(front, AT_ONCE)
    calls = calls_of(front)
    lists = sum(count for name, count in calls.items() if name.startswith("list"))
    assert calls["deployVirtualMachine"] <= MOST_DEPLOYS * VMS
    assert lists <= MOST_LISTS * VMS
    assert_all_done(front, upstream)


def test_the_upstream_dies_half_way(front: Fleet, upstream: Upstream, capsys: pytest.CaptureFixture[str]) -> None:
    """Its API is killed and started again while half of the VMs are there."""
    slow_boots(upstream.fleet, 300)
    with measured(front, capsys, "upstream killed half-way"):
        front.deploy(VMS)
        runs = Thread(target=run_to_the_end, args=(front, AT_ONCE))
        runs.start()
        wait_for(partial(has_vms, upstream, VMS // 2))
        upstream.kill()
        upstream.start()
        runs.join()
    assert_all_done(front, upstream)


def test_what_is_between_them_breaks_in_every_way(
    front: Fleet, upstream: Upstream, between: tuple[Proxy, str]
) -> None:
    """Answers are truncated, delayed and lost, and all connections cut, FRONT_CUTS times: every VM is made once."""
    proxy, _ = between
    slow_boots(upstream.fleet, 300)
    front.deploy(VMS)
    runs = Thread(target=run_to_the_end, args=(front, AT_ONCE))
    runs.start()
    chance = random.Random(1)  # noqa: S311 - no secret
    for _ in range(CUTS):
        proxy.truncate(chance.choice((0, 3, 10)))
        proxy.slow(chance.choice((0.0, 0.0, 0.2)))
        proxy.swallow_answers(swallow=chance.random() < LOSING)
        runs.join(chance.uniform(0.1, 2.0))
        proxy.cut()
    proxy.truncate(0)
    proxy.slow(0.0)
    proxy.swallow_answers(swallow=False)
    runs.join()
    assert_all_done(front, upstream)


def test_both_sides_die_again_and_again(front: Fleet, upstream: Upstream, tmp_path: Path) -> None:
    """Worker in front and API behind are killed together, FRONT_KILLS times, in the midst of one call."""
    settings, log = front_settings(front), tmp_path / "front.log"
    slow_boots(upstream.fleet, 300)
    front.deploy(VMS)
    with program(settings, log, *BULKDEPLOY, "sweeper"):
        for part in range(1, KILLS + 1):
            with program(settings, log, *BULKDEPLOY, "worker") as worker:
                wait_for(partial(has_vms, upstream, part * VMS // (KILLS + 3)))
                upstream.kill()
                with suppress(ProcessLookupError):
                    worker.kill()
                upstream.start()
        with program(settings, log, *BULKDEPLOY, "worker"):
            wait_for(lambda: all_done(front))
    assert_all_done(front, upstream)
