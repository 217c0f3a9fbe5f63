"""``make test-front``: 1,000 VMs through two whole stacks, killed and cut; what was called for each VM."""

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.provisioning.running.job_runner import RunnerOptions
from tests.cloudstack.stacks import (
    Between,
    Upstream,
    assert_equal_on_both_sides,
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
"""Calls for each VM that the upstream gets."""


@pytest.fixture
def upstream(fleet: Fleet, tmp_path: Path) -> Iterator[Upstream]:
    """The stack behind."""
    fleet.zone.change(SMALLER_OFFERING)
    with upstream_stack(fleet, tmp_path / "upstream.log", worker_threads=64, lease_seconds=5) as made:
        yield made


@pytest.fixture
def between(upstream: Upstream) -> Iterator[Between]:
    """What goes between the two."""
    with proxied(upstream) as made:
        yield made


@pytest.fixture
def front(
    between: Between,
    upstream: Upstream,
    postgres_url: str,
    template_database: str,
    request: pytest.FixtureRequest,
) -> Iterator[Fleet]:
    """The stack in front."""
    redis = unused_redis_database(request.config)
    with (
        database_clone(postgres_url, template_database) as url,
        front_stack(upstream, url, redis, url=between.url, jobs_at_once=64) as made,
    ):
        made.zone.change(SMALLER_OFFERING)
        yield made


def assert_all_done(front: Fleet, upstream: Upstream) -> None:
    """Every VM runs, once, where the front says."""
    assert [job.result for job in front.jobs() if job.status != JobStatus.SUCCEEDED] == []
    assert_equal_on_both_sides(front, upstream, VMS)


def has_vms(upstream: Upstream, count: int) -> bool:
    """Whether so many VMs are there, or were."""
    return len(upstream.fleet.vms()) >= count


@contextmanager
def measured(between: Between, capsys: pytest.CaptureFixture[str], what: str) -> Iterator[None]:
    """Say what the VMs took: time, CPU of this process (the front, and what is between), calls upstream."""
    began, cpu = time.monotonic(), time.process_time()
    yield
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    shares = ", ".join(f"{count / VMS:.3f} {name}" for name, count in sorted(between.received.items()))
    with capsys.disabled():
        sys.stdout.write(
            f"\n{what}: {VMS} VMs in {wall:.1f} s, {1000 * cpu / VMS:.1f} ms of CPU each;"
            f" calls for each: {shares}\n"
        )


def lists_of(between: Between) -> int:
    """How many list calls the upstream got."""
    return sum(count for name, count in between.received.items() if name.startswith("list"))


@contextmanager
def breaking(between: Between) -> Iterator[None]:
    """Answers are truncated, delayed and lost, and all connections cut, FRONT_CUTS times; then all is well."""
    proxy, ended = between.proxy, Event()

    def go_on() -> None:
        chance = random.Random(1)  # noqa: S311 - no secret
        for _ in range(CUTS):
            proxy.truncate(chance.choice((0, 3, 10)))
            proxy.slow(chance.choice((0.0, 0.0, 0.2)))
            proxy.swallow_answers(swallow=chance.random() < LOSING)
            if ended.wait(chance.uniform(0.1, 2.0)):
                break
            proxy.cut()
        proxy.truncate(0)
        proxy.slow(0.0)
        proxy.swallow_answers(swallow=False)

    thread = Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_calls_for_each_vm(
    front: Fleet, upstream: Upstream, between: Between, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most one deploy call, and a fifth of a list call, where nothing breaks."""
    with measured(between, capsys, "undisturbed"):
        front.deploy(VMS)
        run_to_the_end(front, AT_ONCE)
    assert between.received["deployVirtualMachine"] <= MOST_DEPLOYS * VMS
    assert lists_of(between) <= MOST_LISTS * VMS
    assert_all_done(front, upstream)


def test_the_upstream_dies_half_way(
    front: Fleet, upstream: Upstream, between: Between, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its API is killed and started again while half of the VMs are there.

    No deploy call is executed twice. Answers that were lost are looked for together; at most one call more is
    refused for each VM that was on its way and never came to be.
    """
    slow_boots(upstream.fleet, 300)
    with measured(between, capsys, "upstream killed half-way"):
        front.deploy(VMS)
        runs = Thread(target=run_to_the_end, args=(front, AT_ONCE))
        runs.start()
        wait_for(partial(has_vms, upstream, VMS // 2))
        upstream.kill("api")
        upstream.start("api")
        runs.join()
    assert upstream.fleet.zone.scalar("SELECT count(*) FROM virtual_machines") == VMS  # removed ones, too
    assert lists_of(between) <= MOST_LISTS * VMS + AT_ONCE.threads
    assert_all_done(front, upstream)


def test_what_is_between_them_breaks_in_every_way(front: Fleet, upstream: Upstream, between: Between) -> None:
    """Every VM is made once."""
    slow_boots(upstream.fleet, 300)
    front.deploy(VMS)
    with breaking(between):
        run_to_the_end(front, AT_ONCE)
    assert_all_done(front, upstream)


def test_both_sides_die_and_what_is_between_them_breaks(
    front: Fleet, upstream: Upstream, between: Between, tmp_path: Path
) -> None:
    """Workers on both sides and the API behind are killed together, FRONT_KILLS times, in the midst of one call.

    Meanwhile connections break. Every VM is made once, and the front's picture equals what is there.
    """
    settings, log = front_settings(front), tmp_path / "front.log"
    for side in (front, upstream.fleet):
        side.set_value("job.lost.worker.max", 1000)  # the test kills the worker of a job more often than 5 times
    slow_boots(upstream.fleet, 300)
    front.deploy(VMS)
    with program(settings, log, *BULKDEPLOY, "sweeper"), breaking(between):
        for part in range(1, KILLS + 1):
            with program(settings, log, *BULKDEPLOY, "worker") as worker:
                wait_for(partial(has_vms, upstream, part * VMS // (KILLS + 3)))
                upstream.kill("api", "worker")
                with suppress(ProcessLookupError):
                    worker.kill()
                upstream.start("api", "worker")
        with program(settings, log, *BULKDEPLOY, "worker"):
            wait_for(lambda: all_done(front))
    assert_all_done(front, upstream)
