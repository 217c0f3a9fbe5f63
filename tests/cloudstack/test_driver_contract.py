"""The driver for CloudStack keeps the contract of drivers, against a server that answers as CloudStack does."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import (
    DeclaredOffContract,
    DeviceContract,
    DriverContract,
    FencingContract,
    HostContract,
    LeftoversContract,
    Machines,
    MigrationContract,
    Outage,
    OutageContract,
    ResizeContract,
    Rig,
    ScalingContract,
    ShrinkContract,
    VolumeContract,
)
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import LAST_FENCE
from tests.cloudstack.driven import HOSTS, SUBJECTS, driven
from tests.support.cloudstack.double import RELEASES, CloudStackDouble

pytestmark = pytest.mark.long

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


class TestCloudStackContract(
    DriverContract,
    VolumeContract,
    HostContract,
    FencingContract,
    MigrationContract,
    ScalingContract,
    DeviceContract,
    ResizeContract,
    ShrinkContract,
    DeclaredOffContract,
    OutageContract,
    LeftoversContract,
):
    """Two hosts of a cloud that shares no code with us; each call is held to CloudStack's own descriptions."""

    @pytest.fixture(params=[pytest.param(one, marks=pytest.mark.long) for one in RELEASES[:-1]] + [RELEASES[-1]])
    def cloud(self, engine: Engine, request: pytest.FixtureRequest) -> Iterator[tuple[CloudStackDouble, Rig]]:
        """An empty cloud of each release; ``make test`` runs the newest."""
        with driven(engine, release=request.param) as (upstream, driver):

            def fail_next(step: str) -> None:
                upstream.failing.update(FAILURES[step])

            def release(guest: UUID) -> None:
                driver._records.fences.release(guest, LAST_FENCE)

            yield upstream, Rig(driver, HOSTS, fail_next, ("volume", "boot"), SUBJECTS, release)

    @pytest.fixture
    def rig(self, cloud: tuple[CloudStackDouble, Rig]) -> Rig:
        """Return the driver of the cloud."""
        return cloud[1]

    @pytest.fixture
    def outage(self, cloud: tuple[CloudStackDouble, Rig]) -> Outage:
        """Have CloudStack find a host Down, whose VMs run on."""
        states = cloud[0].zone.states
        return Outage(
            lambda host: states.update({str(host.uuid): "Down"}), lambda host: states.update({str(host.uuid): "Up"})
        )

    @pytest.fixture
    def traces(self, cloud: tuple[CloudStackDouble, Rig]) -> Callable[[], set[str]]:
        """Return the ids of all VMs that are not expunged, and of all volumes."""
        upstream = cloud[0]
        return lambda: {
            *(row["id"] for row in upstream.vms.values() if row["state"] != "Expunging"),
            *upstream.volumes,
        }

    @pytest.fixture
    def machines(self) -> Machines:
        """Hosts by their ids; one that there is not."""
        promise = HostPromise(Decimal(1), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "KVM", HostAccess(f"cloudstack://{uuid}"), promise)
            for uuid in (HOSTS[0].uuid, HOSTS[1].uuid, UUID(int=7))
        )
        return Machines((first, second), silent)
