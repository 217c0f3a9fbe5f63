"""A zone with clusters of a CloudStack, imported and driven through it, and with others beside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bulkdeploy.cloudstack.client import Access
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.drivers.simulator.database import drop_database
from bulkdeploy.manage.upstream.following import Cadence, Follower
from bulkdeploy.manage.zone_files.loading import load_zone_file
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.system import Cipher, System
from bulkdeploy.store.accounts.callers import caller_by_api_key
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.drivers import build_configured_drivers, simulator_url
from bulkdeploy.wiring.system import build_job_queue
from tests.cloudstack.described_client import DescribedClient
from tests.cloudstack.stacks import Upstream, options_for, run_to_the_end, upstream_stack
from tests.conftest import unused_redis_database
from tests.support.processes.services import database_clone
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database
from tests.support.zones.zone_queries import Zone

pytestmark = pytest.mark.long

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

OWN_CLUSTER = Path(__file__).parent / "own_cluster.yaml"
MANY = 4
SELDOM = Cadence(events=0.1, places=10_000, moves=10_000, everything=10_000)


@dataclass(frozen=True)
class Mixed:
    """The stack in front: what was imported, an own cluster, and what follows the stack behind."""

    fleet: Fleet
    drivers: Drivers
    follower: Follower

    def run(self) -> None:
        """Run all jobs, each with the driver of its cluster."""
        run_to_the_end(self.fleet, drivers=self.drivers)

    def hosts_of(self, network: str) -> dict[str, str]:
        """The hosts of the VMs that run in a network, by the VMs' names."""
        rows = self.fleet.zone.rows(
            "SELECT v.name, h.name AS host FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
            " JOIN nics i ON i.vm_id = v.id JOIN networks n ON n.id = i.network_id"
            " WHERE v.state = 'Running' AND i.removed IS NULL AND n.name = :network",
            network=network,
        )
        return {row.name: row.host for row in rows}

    def resource_states(self) -> dict[str, str]:
        """What operators want of hosts, by their names."""
        return {row.name: row.resource_state for row in self.fleet.zone.rows("SELECT * FROM hosts")}

    def breaches(self) -> list[str]:
        """What the audit finds, rows against both sorts of hypervisors."""
        return [breach for one in audit(self.fleet.engine, list(self.drivers)) for breach in one.breaches]


@pytest.fixture
def upstream(fleet: Fleet, tmp_path: Path) -> Iterator[Upstream]:
    """The stack behind: KVM hosts."""
    fleet.zone.change("UPDATE templates SET password_enabled = false")  # it takes none from outside
    with upstream_stack(fleet, tmp_path / "upstream.log") as made:
        yield made


@pytest.fixture
def mixed(
    upstream: Upstream, postgres_url: str, bare_database: str, cipher: Cipher, request: pytest.FixtureRequest
) -> Iterator[Mixed]:
    """The stack in front, which has imported what is behind, and has a cluster of its own."""
    given = options_for(upstream) | {"poll_seconds": 0.2}
    redis_url = upstream.settings.require_redis_url().rpartition("/")[0]
    with database_clone(postgres_url, bare_database) as url:
        settings = upstream.settings.model_copy(
            update={
                "database_url": url,
                "redis_url": f"{redis_url}/{unused_redis_database(request.config)}",
                "drivers": {"KVM": "cloudstack", "External": "simulator"},
                "driver": {"cloudstack": given},
            }
        )
        engine = create_engine(url, pool_size=20)
        drivers = build_configured_drivers(settings, engine)
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir, drivers)
        client = DescribedClient(Access(upstream.url, str(given["apikey"]), str(given["secretkey"]), None, 1000))
        follower = Follower(system, client, cadence=SELDOM)
        follower.round()
        load_zone_file(system, OWN_CLUSTER)
        yield Mixed(fleet_of(system, settings), drivers, follower)
        client.close()
        drivers.close()
        engine.dispose()
        drop_database(simulator_url(settings))


def fleet_of(system: System, settings: Any) -> Fleet:
    """What the stack in front is worked with, as its admin."""
    with system.engine.connect() as connection:
        admin = admin_row(connection)
        assert admin is not None
        holder = caller_by_api_key(connection, admin.api_key)
    assert holder is not None
    nothing: Any = None
    return Fleet(system.engine, settings, system, Zone(system.engine), nothing, nothing, holder.caller)


def test_each_cluster_has_its_driver_and_only_what_was_learnt_follows(mixed: Mixed, upstream: Upstream) -> None:
    """VMs of both sorts of clusters run in one zone.

    What is read of the CloudStack again changes its hosts and VMs, and nothing of the cluster beside them.
    """
    front = mixed.fleet
    front.deploy(MANY, network_ids=(front.id_of("networks", "guests"),))
    front.deploy(MANY, template="Own", network_ids=(front.id_of("networks", "own"),))
    mixed.run()
    assert {job.status for job in front.jobs()} == {JobStatus.SUCCEEDED}
    behind, own = mixed.hosts_of("guests"), mixed.hosts_of("own")
    assert (len(behind), len(own)) == (MANY, MANY)
    assert behind == upstream.hosts()
    assert set(own.values()) == {"own-1", "own-2"}
    assert mixed.breaches() == []

    before = mixed.resource_states()
    upstream.fleet.zone.change("UPDATE hosts SET resource_state = 'Maintenance' WHERE name = 'a-2-1'")
    mixed.follower._all_due = 0.0
    report = mixed.follower.round()
    assert report is not None
    assert (report.created, report.changed, report.removed) == ({}, {"hosts": 1}, {})
    assert mixed.resource_states() == before | {"a-2-1": "Maintenance"}
    assert (mixed.hosts_of("guests"), mixed.hosts_of("own")) == (behind, own)
    assert mixed.breaches() == []
