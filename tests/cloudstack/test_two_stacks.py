"""A service in front of another: whatever is killed or cut, each VM is there once, where the front says it is."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from bulkdeploy.domain.jobs import JobStatus
from tests.cloudstack.stacks import (
    Between,
    Upstream,
    assert_equal_on_both_sides,
    front_stack,
    proxied,
    run_to_the_end,
    upstream_stack,
)
from tests.conftest import unused_redis_database
from tests.support.processes.services import database_clone
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database
from tests.workers.processes import slow_boots

pytestmark = pytest.mark.long

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

MANY = 20


@pytest.fixture
def upstream(fleet: Fleet, tmp_path: Path) -> Iterator[Upstream]:
    """The stack behind."""
    with upstream_stack(fleet, tmp_path / "upstream.log") as made:
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
        front_stack(upstream, url, redis, url=between.url, poll_seconds=0.2) as made,
    ):
        yield made


def test_a_bulk_call_survives_cuts_and_the_death_of_the_upstream(
    front: Fleet, upstream: Upstream, between: Between
) -> None:
    """Of its answers every fifth is truncated, and its API is killed half-way and started again.

    No VM is lost, none is made twice, all run where planned.
    """
    proxy = between.proxy
    proxy.truncate(5)
    slow_boots(upstream.fleet, 300)
    front.deploy(MANY)
    runs = Thread(target=run_to_the_end, args=(front,))
    runs.start()
    wait_for(lambda: len(upstream.fleet.vms()) >= MANY // 3)
    upstream.kill("api")
    upstream.start("api")
    runs.join()
    proxy.truncate(0)
    assert {job.status for job in front.jobs()} == {JobStatus.SUCCEEDED}
    assert_equal_on_both_sides(front, upstream, MANY)


def test_a_vm_whose_deployment_waits_there_is_neither_started_nor_taken_for_stopped(
    front: Fleet, upstream: Upstream, between: Between
) -> None:
    """While the upstream has no worker, answers are lost: its VMs are listed as Stopped with a job that waits."""
    proxy = between.proxy
    upstream.kill("worker")
    proxy.truncate(2)
    front.deploy(MANY // 4)
    runs = Thread(target=run_to_the_end, args=(front,))
    runs.start()
    wait_for(lambda: len(upstream.fleet.vms()) == MANY // 4)
    calls = between.received["listVirtualMachines"]
    wait_for(lambda: between.received["listVirtualMachines"] >= calls + 6 or not runs.is_alive())
    upstream.start("worker")
    runs.join()
    proxy.truncate(0)
    assert {job.status for job in front.jobs()} == {JobStatus.SUCCEEDED}
    assert_equal_on_both_sides(front, upstream, MANY // 4)
    assert between.received["startVirtualMachine"] == 0
