"""``make test-front``: unmodified clients call a stack whose hypervisors are another stack as any other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bulkdeploy.store.database.bootstrap import admin_row
from tests.acceptance.conftest import Cloud
from tests.acceptance.test_clients import (
    strict,
    test_cs_deploys_in_bulk_polls_lists_and_destroys,
    test_cs_deploys_one_and_waits_for_its_result,
    test_libcloud_deploys_lists_stops_and_destroys,
)
from tests.cloudstack.stacks import front_settings
from tests.cloudstack.test_two_stacks import between, front, upstream
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import BULKDEPLOY, api_process, program
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database

__all__ = [
    "between",
    "fleet",
    "fleet_simulator_url",
    "front",
    "strict",
    "template_database",
    "test_cs_deploys_in_bulk_polls_lists_and_destroys",
    "test_cs_deploys_one_and_waits_for_its_result",
    "test_libcloud_deploys_lists_stops_and_destroys",
    "upstream",
]


@pytest.fixture
def cloud(front: Fleet, tmp_path: Path) -> Iterator[Cloud]:
    """The front's programs."""
    settings = front_settings(front)
    with front.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    secret = front.system.cipher.decrypt(admin.secret_key_encrypted)
    with (
        program(settings, tmp_path / "worker.log", *BULKDEPLOY, "worker"),
        program(settings, tmp_path / "sweeper.log", *BULKDEPLOY, "sweeper"),
        api_process(settings, tmp_path / "api.log") as url,
    ):
        client = ApiClient(url, admin.api_key, secret)
        made = Cloud(front, client, client)
        yield made
        made.empty()
