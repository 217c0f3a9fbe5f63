"""A service in front of another: whatever is killed or cut, each VM is there once, where the front says it is."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator.control import Distribution, Latency, Step, set_latency
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.services.fleets.bulk_operations import BulkRequest, destruction, jobs_of_kind, run_bulk_operation
from bulkdeploy.services.fleets.vm_selection import select_exactly
from bulkdeploy.services.virtual_machines.virtual_machine_starting import start_operation
from bulkdeploy.services.virtual_machines.vm_work import VmOperation
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


def test_bulk_operations_are_carried_out_once_for_each_vm_although_both_sides_die(
    front: Fleet, upstream: Upstream, between: Between, tmp_path: Path
) -> None:
    """Stop, start and destruction of all VMs by one call each become one upstream call for each VM.

    In each operation the front's worker and the upstream's API and worker are killed when a third is done. Until
    then every fifth answer is truncated.
    """
    settings, log = front_settings(front), tmp_path / "front.log"
    for side in (front, upstream.fleet):
        side.set_value("job.lost.worker.max", 1000)
    front.deploy(MANY)
    run_to_the_end(front)
    for step in (Step.STOP, Step.BOOT, Step.DELETE):
        set_latency(upstream.fleet.control, Latency(step, Distribution.FIXED, 300))
    operations: dict[str, Callable[[], VmOperation]] = {
        "stop_virtual_machine": lambda: jobs_of_kind(STOP, {"forced": False}),
        "start_virtual_machine": start_operation,
        "destroy_virtual_machine": lambda: destruction(expunge=True),
    }
    with program(settings, log, *BULKDEPLOY, "sweeper"):
        for kind, operation in operations.items():
            between.proxy.truncate(5)
            request = BulkRequest(command="x", operation=operation(), selection=select_exactly(front.vms()))
            assert not front.change(run_bulk_operation, front.system, front.caller, request).failed
            with program(settings, log, *BULKDEPLOY, "worker") as worker:
                wait_for(partial(_is_third_done, upstream, kind))
                upstream.kill("api", "worker")
                with suppress(ProcessLookupError):
                    worker.kill()
                upstream.start("api", "worker")
            between.proxy.truncate(0)
            with program(settings, log, *BULKDEPLOY, "worker"):
                wait_for(lambda: all_done(front))
            assert {job.status for job in front.jobs()} == {JobStatus.SUCCEEDED}
            wait_for(lambda: all_done(upstream.fleet))
            done = _done(upstream, kind)
            assert (len(done), len(set(done))) == (MANY, MANY)
            front.assert_intact()
            upstream.fleet.assert_intact()
    assert list(front.driver.list_guests()) == []


def _is_third_done(upstream: Upstream, kind: str) -> bool:
    return len(_done(upstream, kind)) >= MANY // 3


def _done(upstream: Upstream, kind: str) -> list[int]:
    """Return the VMs of the jobs of a kind that succeeded upstream."""
    done = "SELECT instance_id FROM async_jobs WHERE kind = :kind AND status = 1"
    return [row.instance_id for row in upstream.fleet.zone.rows(done, kind=kind)]
