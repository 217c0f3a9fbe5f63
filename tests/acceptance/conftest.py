"""The whole service as operators run it: API, workers and sweeper as processes of their own."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from bulkdeploy.services.system import System
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.conftest import ADMIN_PASSWORD, SECRET_KEY, unused_redis_database
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.processes.programs import BULKDEPLOY, api_process, program
from tests.support.processes.services import database_clone
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.fleet import Fleet, fleet_simulator_url, open_fleet
from tests.support.zones.zone_queries import Zone

__all__ = ["fleet_simulator_url"]

WORKERS = 2


@dataclass(frozen=True, slots=True)
class Cloud:
    """A running service, its fleet, and the admin's client."""

    fleet: Fleet
    client: ApiClient
    other_client: ApiClient
    """The same admin at a second API process."""

    @property
    def zone(self) -> Zone:
        """The small zone."""
        return self.fleet.zone

    def empty(self) -> None:
        """Expunge every VM there is, as an admin would; nothing may be held afterwards."""
        self.fleet.clear_faults()
        with self.fleet.engine.begin() as connection:
            connection.execute(text("DELETE FROM configuration_values"))
        for vm in self.zone.rows("SELECT uuid FROM virtual_machines WHERE removed IS NULL"):
            self.client.call("destroyVirtualMachine", id=vm.uuid, expunge=True)
        deadline = time.monotonic() + PATIENCE_S
        left = "SELECT (SELECT count(*) FROM async_jobs WHERE status = 0) + count(removal_due) FROM volumes"
        while self.zone.scalar(left):
            assert time.monotonic() < deadline, "jobs that destroy VMs, or removals of volumes, do not end"
            time.sleep(0.05)
        self.fleet.assert_nothing_held()


@pytest.fixture(scope="package")
def running_cloud(
    request: pytest.FixtureRequest,
    postgres_url: str,
    redis_url: str,
    small_zone_database: str,
    fleet_simulator_url: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cloud]:
    """Two API processes, two workers and a sweeper on the small zone."""
    folder = tmp_path_factory.mktemp("cloud")
    with ExitStack() as stack:
        settings = Settings(
            database_url=stack.enter_context(database_clone(postgres_url, small_zone_database)),
            redis_url=redis_url.removesuffix("/0") + f"/{unused_redis_database(request.config)}",
            data_dir=folder / "data",
            secret_key=SecretStr(SECRET_KEY),
            admin_password=SecretStr(ADMIN_PASSWORD),
            worker_threads=8,
            sweep_interval_seconds=0.5,
        )
        engine = create_engine(str(settings.database_url), pool_size=20)
        stack.callback(engine.dispose)
        system = System(engine, build_job_queue(settings), cipher, settings.data_dir, SIMULATED)
        fleet = stack.enter_context(open_fleet(engine, settings, system, fleet_simulator_url))
        for number in range(WORKERS):
            stack.enter_context(program(fleet.settings, folder / f"worker-{number}.log", *BULKDEPLOY, "worker"))
        stack.enter_context(program(fleet.settings, folder / "sweeper.log", *BULKDEPLOY, "sweeper"))
        urls = [
            stack.enter_context(api_process(fleet.settings, folder / f"api-{number}.log")) for number in range(2)
        ]
        with engine.connect() as connection:
            admin = admin_row(connection)
        assert admin is not None
        client = ApiClient(urls[0], admin.api_key, cipher.decrypt(admin.secret_key_encrypted))
        yield Cloud(fleet, client, replace(client, url=urls[1]))


@pytest.fixture
def cloud(running_cloud: Cloud) -> Iterator[Cloud]:
    """The running service, without VMs before and after."""
    yield running_cloud
    running_cloud.empty()
