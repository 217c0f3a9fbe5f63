"""A service in front of another: whatever is killed, each VM is upstream once, where the front says that it is."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from bulkdeploy.domain.jobs import JobStatus
from tests.cloudstack.stacks import Upstream, front_stack, run_to_the_end, upstream_stack
from tests.conftest import unused_redis_database
from tests.support.fleet import Fleet, fleet, fleet_simulator_url, template_database
from tests.support.services import database_clone
from tests.workers.processes import slow_boots, wait_for

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

MANY = 20


@pytest.fixture
def upstream(fleet: Fleet, tmp_path: Path) -> Iterator[Upstream]:
    """The stack behind."""
    with upstream_stack(fleet, tmp_path / "upstream.log") as made:
        yield made


@pytest.fixture
def front(
    upstream: Upstream, postgres_url: str, template_database: str, request: pytest.FixtureRequest
) -> Iterator[Fleet]:
    """The stack in front."""
    redis_url = upstream.settings.require_redis_url().rpartition("/")[0]
    own_redis = f"{redis_url}/{unused_redis_database(request.config)}"
    with (
        database_clone(postgres_url, template_database) as url,
        front_stack(upstream, url, own_redis, poll_seconds=0.2) as made,
    ):
        yield made


def assert_equal_on_both_sides(front: Fleet, upstream: Upstream, vms: int) -> None:
    """Each VM once, on the same host; audits find nothing on either side."""
    rows = front.zone.rows(
        "SELECT v.name, h.name AS host FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
        " WHERE v.state = 'Running'"
    )
    assert {row.name: row.host for row in rows} == upstream.hosts()
    assert len(rows) == len(list(front.driver.list_guests())) == vms
    front.assert_intact()
    upstream.fleet.assert_intact()


def test_a_bulk_call_survives_the_death_of_the_upstream(front: Fleet, upstream: Upstream) -> None:
    """Its API is killed half-way and started again: no VM is lost, none is made twice, all run where planned."""
    slow_boots(upstream.fleet, 300)
    front.deploy(MANY)
    runs = Thread(target=run_to_the_end, args=(front,))
    runs.start()
    wait_for(lambda: len(upstream.fleet.vms()) >= MANY // 3)
    upstream.kill()
    upstream.start()
    runs.join()
    assert {job.status for job in front.jobs()} == {JobStatus.SUCCEEDED}
    assert_equal_on_both_sides(front, upstream, MANY)
