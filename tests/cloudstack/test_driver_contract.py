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

    @pytest.fixture
    def rig(self, engine: Engine) -> Iterator[Rig]:
        """An empty cloud."""
        with driven(engine) as (upstream, driver):
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
