"""``make test-front``: the driver keeps the contract of drivers where the CloudStack is this service, whole."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import cycle
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import (
    DeviceContract,
    DriverContract,
    FencingContract,
    HostContract,
    Machines,
    MigrationContract,
    ResizeContract,
    Rig,
    ScalingContract,
    Subjects,
    VolumeContract,
)
from bulkdeploy.drivers.guests import NicSpec
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from bulkdeploy.drivers.records import GuestOrder
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.services.system import Cipher, System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.cloudstack.driven import driver_of
from tests.cloudstack.orders import AnyOffering, EveryVolume
from tests.cloudstack.stacks import Upstream, options_for, upstream_stack
from tests.conftest import ADMIN_PASSWORD, SECRET_KEY, unused_redis_database
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.processes.services import database_clone
from tests.support.zones.fleet import Fleet, fleet_simulator_url, open_fleet

__all__ = ["fleet_simulator_url"]

GIB = 1 << 30
NETWORKS = 3
"""A VM has one nic in a network: guests of the contract have up to two nics."""


@dataclass(frozen=True)
class InNetworks(Subjects):
    """Nics lie in networks in turn."""

    turns: Iterator[UUID] = field(default_factory=lambda: iter(()))

    def new_nic(self) -> NicSpec:
        """A nic that no guest has."""
        return replace(super().new_nic(), network_uuid=next(self.turns))


@dataclass(frozen=True)
class Ready:
    """A stack behind, and what guests are made of there."""

    upstream: Upstream
    subjects: Subjects
    order: GuestOrder


@pytest.fixture(scope="module")
def ready(
    request: pytest.FixtureRequest,
    postgres_url: str,
    small_zone_database: str,
    fleet_simulator_url: str,
    cipher: Cipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ready]:
    """One stack for all tests: a driver with records of its own knows nothing of guests of others."""
    folder = tmp_path_factory.mktemp("upstream")
    redis = request.getfixturevalue("redis_url").removesuffix("/0") + f"/{unused_redis_database(request.config)}"
    with database_clone(postgres_url, small_zone_database) as url:
        settings = Settings(
            database_url=url,
            redis_url=redis,
            data_dir=folder,
            secret_key=SecretStr(SECRET_KEY),
            admin_password=SecretStr(ADMIN_PASSWORD),
        )
        engine = create_engine(url, pool_size=20)
        system = System(engine, build_job_queue(settings), cipher, folder, SIMULATED)
        with (
            open_fleet(engine, settings, system, fleet_simulator_url) as fleet,
            upstream_stack(fleet, folder / "upstream.log", worker_threads=32) as upstream,
        ):
            yield Ready(upstream, *made_of(upstream))
        engine.dispose()


def made_of(upstream: Upstream) -> tuple[Subjects, GuestOrder]:
    """What guests are made of there: one pool for all, and networks in turn."""
    fleet = upstream.fleet
    fleet.zone.change("UPDATE storage_pools SET state = 'Disabled' WHERE name = 'zone-wide'")
    given = options_for(upstream)
    client = ApiClient(f"http://{upstream.settings.listen}", str(given["apikey"]), str(given["secretkey"]))
    zone, first = uuid_of(fleet, "zones", "small"), uuid_of(fleet, "networks", "guests")
    networks = [first]
    for number in range(1, NETWORKS):
        answer = client.call(
            "createNetwork",
            name=f"more-{number}",
            displaytext="one more",
            zoneid=zone,
            networkofferingid=uuid_of(fleet, "network_offerings", "DefaultSharedNetworkOffering"),
            vlan=str(100 + number),
            gateway=f"10.{100 + number}.0.1",
            netmask="255.255.0.0",
            startip=f"10.{100 + number}.0.10",
            endip=f"10.{100 + number}.255.254",
        )
        networks.append(UUID(answer["network"]["id"]))
    template = uuid_of(fleet, "templates", "Debian 12")
    subjects = InNetworks(
        pool_uuid=uuid_of(fleet, "storage_pools", "a-1-primary"),
        template_uuid=template,
        volume_bytes=2 * GIB,
        turns=cycle(networks),
    )
    order = GuestOrder(
        zone_uuid=zone,
        offering_uuid=uuid_of(fleet, "service_offerings", "Custom"),
        custom_sizes=frozenset({"cpuNumber", "memory"}),
        template_uuid=template,
        hypervisor="KVM",
        root_bytes=2 * GIB,
        owner="admin",
        domain_uuid=uuid_of(fleet, "domains", "ROOT"),
        disk_offerings=AnyOffering(uuid_of(fleet, "disk_offerings", "Custom")),
        custom_disks=EveryVolume(),
    )
    return subjects, order


def uuid_of(fleet: Fleet, table: str, name: str) -> UUID:
    """The id of a row by its name."""
    return UUID(str(fleet.zone.scalar(f"SELECT uuid FROM {table} WHERE name = :name", name=name)))


class TestContractBeforeThisService(
    DriverContract,
    VolumeContract,
    HostContract,
    FencingContract,
    MigrationContract,
    ScalingContract,
    DeviceContract,
    ResizeContract,
):
    """Two hosts of a cluster of the stack behind, whose simulated hypervisors fail as they are told."""

    @pytest.fixture
    def rig(self, ready: Ready, engine: Engine) -> Iterator[Rig]:
        """A driver that knows of no guest."""
        fleet = ready.upstream.fleet
        fleet.clear_faults()
        hosts = tuple(host for host in fleet.addresses().values() if host.name in ("a-1-1", "a-1-2"))
        given = options_for(ready.upstream) | {"poll_seconds": 0.1}
        driver = driver_of(given, engine, hosts, ready.subjects.pool_uuid, ready.order)

        def fail_next(step: str) -> None:
            fleet.fault(Step(step), FaultKind.PERMANENT, remaining=1)

        yield Rig(driver, hosts, fail_next, ("boot",), ready.subjects)
        driver.close()

    @pytest.fixture
    def machines(self, rig: Rig) -> Machines:
        """Hosts by their ids; one that there is not."""
        promise = HostPromise(Decimal(1), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "KVM", HostAccess(f"cloudstack://{uuid}"), promise)
            for uuid in (rig.hosts[0].uuid, rig.hosts[1].uuid, UUID(int=7))
        )
        return Machines((first, second), silent)
