"""Promises of the commands that look at a running service: report and audit."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.conftest import SMALL_ZONE
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import bulkdeploy
from tests.support.zones.zone_files import load_zone
from tests.support.zones.zone_queries import Zone


@pytest.fixture
def zone(engine: Engine, cipher: FernetCipher) -> Zone:
    """The small zone, loaded."""
    load_zone(engine, cipher, SMALL_ZONE)
    return Zone(engine)


@pytest.fixture
def here(settings: Settings, api_url: str) -> Settings:
    """Settings that name the test's API server."""
    return settings.model_copy(update={"listen": api_url.removeprefix("http://")})


def test_report_draws_the_newest_deployment(here: Settings, client: ApiClient, zone: Zone, tmp_path: Path) -> None:
    """The picture has the count of the newest bulk call in its title, and every cluster that got VMs."""
    client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(3))
    client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(9))
    ended = bulkdeploy(here, "report", "--output", str(tmp_path / "spread.svg"))
    assert ended.returncode == 0, ended.stderr
    picture = (tmp_path / "spread.svg").read_text()
    texts = [one.text or "" for one in ElementTree.fromstring(picture).iter()]  # noqa: S314 - we made it
    assert "Bulk deployment of 9 VMs" in texts
    got = [name for name, count in zone.vms_per_cluster().items() if count]
    assert got
    assert set(got) <= set(texts)


def test_report_without_a_deployment_says_so(here: Settings, tmp_path: Path) -> None:
    """Nothing to draw ends with a sentence, not a file or a traceback."""
    ended = bulkdeploy(here, "report", "--output", str(tmp_path / "spread.svg"))
    assert ended.returncode == 1
    assert "no bulk deployment" in ended.stderr
    assert not (tmp_path / "spread.svg").exists()


def test_report_without_a_service_says_where_it_looked(settings: Settings, tmp_path: Path) -> None:
    """An API that does not answer is named in one line."""
    nowhere = settings.model_copy(update={"listen": "127.0.0.1:9"})
    ended = bulkdeploy(nowhere, "report", "--output", str(tmp_path / "spread.svg"))
    assert ended.returncode == 1
    assert "127.0.0.1:9" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_audit_of_intact_books_succeeds(settings: Settings, client: ApiClient, zone: Zone) -> None:
    """After a bulk call every promise holds, each with how much was compared."""
    client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(5))
    ended = bulkdeploy(settings, "audit", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert found["intact"] is True
    assert sum(one["compared"] for one in found["findings"]) > 0


def test_audit_of_cooked_books_fails_and_names_the_breach(settings: Settings, zone: Zone) -> None:
    """A sum that does not fit its claims gives exit code 1 and is shown."""
    with zone.engine.begin() as connection:
        connection.execute(
            text("UPDATE host_capacity SET cpu_mhz_used = cpu_mhz_used + 500, vms_used = vms_used + 1")
        )
    ended = bulkdeploy(settings, "audit")
    assert ended.returncode == 1
    assert "BROKEN" in ended.stdout
