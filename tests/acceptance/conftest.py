"""The whole service as operators run it: API, workers and sweeper as processes of their own."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bulkdeploy.store.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from tests.deploy.zone import Zone
from tests.support.api_client import ApiClient
from tests.support.fleet import Fleet, fleet, fleet_simulator_url, template_database
from tests.support.programs import BULKDEPLOY, api_process, program

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

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


@pytest.fixture
def cloud(fleet: Fleet, cipher: FernetCipher, tmp_path: Path) -> Iterator[Cloud]:
    """Two API processes, two workers and a sweeper on the small zone."""
    settings = fleet.settings.model_copy(update={"worker_threads": 8, "sweep_interval_seconds": 0.5})
    with fleet.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    with ExitStack() as stack:
        for number in range(WORKERS):
            stack.enter_context(program(settings, tmp_path / f"worker-{number}.log", *BULKDEPLOY, "worker"))
        stack.enter_context(program(settings, tmp_path / "sweeper.log", *BULKDEPLOY, "sweeper"))
        urls = [stack.enter_context(api_process(settings, tmp_path / f"api-{number}.log")) for number in range(2)]
        client = ApiClient(urls[0], admin.api_key, cipher.decrypt(admin.secret_key_encrypted))
        yield Cloud(fleet, client, replace(client, url=urls[1]))
