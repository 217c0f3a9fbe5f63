"""A service with management controllers of simulated hosts, whose hypervisor cannot fence by itself."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.drivers import always
from tests.support.power.redfish_servers import PASSWORD, USER
from tests.support.zones.fleet import OneDriver, fleet, fleet_simulator_url, template_database

__all__ = ["fleet", "fleet_simulator_url", "template_database"]


class Unfenced(SimulatorDriver):
    """A hypervisor that cannot fence, as real ones."""


Unfenced.abilities = SimulatorDriver.abilities - {HostFencing}


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, fleet_simulator_url: str) -> Iterator[System]:
    """A service whose hypervisor cannot fence, with controllers of simulated hosts."""
    driver = Unfenced(fleet_simulator_url)
    queue = build_job_queue(settings)
    yield System(engine, queue, cipher, settings.data_dir, always(driver), driver_timeout_s=5)
    driver.close()


@pytest.fixture
def hypervisor(system: System) -> OneDriver:
    """What workers speak to: a hypervisor that cannot fence."""
    return OneDriver(system.drivers.driver_for("KVM"))


def configured(host: str, **other: Any) -> dict[str, Any]:
    """The parameters of a simulated controller."""
    given = {"driver": "simulator", "address": "10.9.0.5", "port": 623, "username": USER, "password": PASSWORD}
    return {"hostid": host, **given, **other}


def enable(client: ApiClient, host: str, **other: Any) -> None:
    """Configure and enable a controller."""
    client.call("configureOutOfBandManagement", **configured(host, **other))
    client.call("enableOutOfBandManagementForHost", hostid=host)


def alerts(client: ApiClient) -> list[tuple[int, str]]:
    """Types and texts of all alerts, newest first."""
    return [(row["type"], row["description"]) for row in client.call("listAlerts").get("alert", [])]
