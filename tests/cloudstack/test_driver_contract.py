"""The driver for CloudStack keeps the contract of drivers, against a server that answers as CloudStack does."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.cloudstack import CloudStackDriver, CloudStackOptions
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
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.drivers.records import GuestOrder
from bulkdeploy.wiring.driver_records import records_in
from tests.cloudstack.orders import AnyOffering, FixedOrders
from tests.cloudstack.upstream import API_KEY, GIB, SECRET_KEY, Upstream, serving
from tests.drivers.ganeti_guest import FixedDirectory

SUBJECTS = Subjects(volume_bytes=2 * GIB)
HOSTS = tuple(HostAddress(uuid4(), name, "192.0.2.1", "KVM") for name in ("left", "right"))
ORDER = GuestOrder(
    zone_uuid=uuid4(),
    offering_uuid=uuid4(),
    has_custom_sizes=True,
    template_uuid=SUBJECTS.template_uuid,
    hypervisor="KVM",
    root_bytes=GIB,
    owner="acme",
    domain_uuid=uuid4(),
    disk_offerings=AnyOffering(uuid4()),
)
FAILURES = {
    "volume": {"createVolume": "call"},
    "boot": {"startVirtualMachine": "job"},
    "stop": {"stopVirtualMachine": "job"},
    "delete": {"destroyVirtualMachine": "job"},
    "migrate": {"migrateVirtualMachine": "job"},
    "scale": {"scaleVirtualMachine": "job"},
    "devices": {"attachVolume": "job"},
    "resize": {"resizeVolume": "job"},
}
"""What fails there in each step."""


def new_driver(url: str, engine: Engine, **options: object) -> CloudStackDriver:
    """A driver of the upstream behind a url."""
    given = {"url": url, "apikey": API_KEY, "secretkey": SECRET_KEY, "calls_per_second": 1000, "poll_seconds": 0.02}
    driver = CloudStackDriver.from_options(CloudStackOptions.model_validate(given | options))
    kept = records_in(engine, lambda _: True)
    directory = FixedDirectory(HOSTS, SUBJECTS.pool_uuid)
    driver.use_records(replace(kept, directory=directory, orders=FixedOrders(ORDER)))
    return driver


@pytest.fixture
def upstream() -> Upstream:
    """A cloud of two hosts."""
    return Upstream({str(host.uuid): host.name for host in HOSTS})


class TestCloudStackContract(
    DriverContract,
    VolumeContract,
    HostContract,
    FencingContract,
    MigrationContract,
    ScalingContract,
    DeviceContract,
    ResizeContract,
):
    """Two hosts of a cloud that shares no code with us; each call is held to CloudStack's own descriptions."""

    @pytest.fixture
    def rig(self, engine: Engine, upstream: Upstream) -> Iterator[Rig]:
        """An empty cloud."""
        with serving(upstream) as url:
            driver = new_driver(url, engine)
            yield Rig(
                driver, HOSTS, lambda step: upstream.failing.update(FAILURES[step]), ("volume", "boot"), SUBJECTS
            )
            driver.close()
        assert upstream.unexpected == []

    @pytest.fixture
    def machines(self) -> Machines:
        """Hosts by their ids; one that there is not."""
        promise = HostPromise(Decimal(1), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "KVM", HostAccess(f"cloudstack://{uuid}"), promise)
            for uuid in (HOSTS[0].uuid, HOSTS[1].uuid, UUID(int=7))
        )
        return Machines((first, second), silent)
