"""The driver for CloudStack keeps the contract of drivers, against a server that answers as CloudStack does."""

from collections.abc import Iterator
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
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
    ShrinkContract,
    VolumeContract,
)
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from tests.cloudstack.driven import HOSTS, SUBJECTS, driven
from tests.support.cloudstack.double import RELEASES

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
):
    """Two hosts of a cloud that shares no code with us; each call is held to CloudStack's own descriptions."""

    @pytest.fixture(params=[pytest.param(one, marks=pytest.mark.long) for one in RELEASES[:-1]] + [RELEASES[-1]])
    def rig(self, engine: Engine, request: pytest.FixtureRequest) -> Iterator[Rig]:
        """An empty cloud of each release; ``make test`` runs the newest."""
        with driven(engine, release=request.param) as (upstream, driver):
            yield Rig(
                driver, HOSTS, lambda step: upstream.failing.update(FAILURES[step]), ("volume", "boot"), SUBJECTS
            )

    @pytest.fixture
    def machines(self) -> Machines:
        """Hosts by their ids; one that there is not."""
        promise = HostPromise(Decimal(1), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "KVM", HostAccess(f"cloudstack://{uuid}"), promise)
            for uuid in (HOSTS[0].uuid, HOSTS[1].uuid, UUID(int=7))
        )
        return Machines((first, second), silent)
