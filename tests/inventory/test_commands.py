"""``bulkdeploy inventory``: the commands, as an operator runs them, with simulated hypervisors behind."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Engine, text

from bulkdeploy.drivers.simulator import SimulatorDriver
from bulkdeploy.drivers.simulator_database import connect, derived_url, drop_database
from bulkdeploy.drivers.simulator_inventory import list_hosts
from bulkdeploy.manage.inventory import demo_zone_file, load_first_zone
from bulkdeploy.services.audit import audit
from bulkdeploy.wiring.settings import Settings
from tests.inventory.support import DEMO, TINY, all_rows, changed, value, write
from tests.support.programs import bulkdeploy


@pytest.fixture
def simulator_url(settings: Settings) -> Iterator[str]:
    """Where the simulated hypervisors of this test keep their state."""
    url = derived_url(settings.require_database_url())
    yield url
    drop_database(url)


def test_load_tells_what_it_did(settings: Settings, simulator_url: str, tmp_path: Path) -> None:
    """The first load lists what was added, the second that everything was there."""
    file = write(tmp_path, TINY)
    first = bulkdeploy(settings, "inventory", "load", str(file))
    assert first.returncode == 0, first.stderr
    assert "Zone tiny\n  added: 1 domains" in first.stdout
    assert "2 hosts" in first.stdout
    second = bulkdeploy(settings, "inventory", "load", str(file))
    assert second.stdout == "Zone tiny: everything was there already.\n"
    with connect(simulator_url) as connection:
        assert [(use.host.name, use.guests_used) for use in list_hosts(connection)] == [
            ("host-1", 2),
            ("host-2", 1),
        ]


def test_load_refuses_with_every_problem_and_no_traceback(
    settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    """A bad file ends with exit code 1 and one line per problem."""
    before = all_rows(engine)
    bad = write(tmp_path, changed("cpu_cores: 4", "cpu_cores: x", changed("count: 3", "count: y")))
    result = bulkdeploy(settings, "inventory", "load", str(bad))
    assert result.returncode == 1
    assert "zone.yaml:22: pods[0].clusters[0].hosts[0].cpu_cores: must be a whole number" in result.stderr
    assert "zone.yaml:24: pods[0].clusters[0].load[0].count: must be a whole number" in result.stderr
    assert "Traceback" not in result.stderr
    assert all_rows(engine) == before


def test_simulated_hypervisors_run_what_rows_say(settings: Settings, engine: Engine, simulator_url: str) -> None:
    """After loading the sample zone the audit finds rows and hypervisors in agreement, also after a second load."""
    for _ in range(2):
        load_first_zone(settings, demo_zone_file())
        driver = SimulatorDriver(simulator_url)
        findings = audit(engine, [driver])
        driver.close()
        assert [breach for finding in findings for breach in finding.breaches] == []
        assert findings[-1].compared == 133


def test_the_first_zone_is_loaded_only_into_an_empty_installation(
    settings: Settings, engine: Engine, simulator_url: str, tmp_path: Path
) -> None:
    """Where there is a zone, starting again with a file loads nothing: operators have changed things since."""
    load_first_zone(settings, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(text("UPDATE hosts SET resource_state = 'Disabled'"))
    before = all_rows(engine)
    load_first_zone(settings, write(tmp_path, TINY))
    assert all_rows(engine) == before
    assert simulator_url


def test_real_hypervisors_are_not_simulated(
    settings: Settings, engine: Engine, simulator_url: str, tmp_path: Path
) -> None:
    """Hosts of a type that another driver drives are not made up."""
    load_first_zone(
        settings.model_copy(update={"drivers": {"KVM": "libvirt", "default": "simulator"}}), write(tmp_path, TINY)
    )
    assert value(engine, "SELECT count(*) FROM hosts") == 2
    with connect(simulator_url) as connection:
        assert list_hosts(connection) == []


def test_a_contradiction_of_the_hypervisors_is_told(settings: Settings, simulator_url: str, tmp_path: Path) -> None:
    """A VM that runs elsewhere than its row says is told in one line."""
    file = write(tmp_path, TINY)
    assert bulkdeploy(settings, "inventory", "load", str(file)).returncode == 0
    move = "UPDATE simulator.guests SET host_uuid = (SELECT {}(uuid::text)::uuid FROM simulator.hosts)"
    with connect(simulator_url) as connection:
        connection.execute(move.format("max"))
        connection.execute(
            move.format("min") + " WHERE uuid = (SELECT uuid FROM simulator.guests ORDER BY name LIMIT 1)"
        )
    result = bulkdeploy(settings, "inventory", "load", str(file))
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)
    assert "is there already" in result.stderr


def test_export_writes_a_file_that_loads(settings: Settings, simulator_url: str, tmp_path: Path) -> None:
    """An export goes to the terminal, or to a file that only its owner reads, and changes nothing when loaded."""
    assert simulator_url
    bulkdeploy(settings, "inventory", "load", str(write(tmp_path, TINY)))
    printed = bulkdeploy(settings, "inventory", "export")
    assert yaml.safe_load(printed.stdout)["zone"]["name"] == "tiny"
    target = tmp_path / "export.yaml"
    written = bulkdeploy(
        settings, "inventory", "export", "--output", str(target), "--with-secrets", "--zone", "tiny"
    )
    assert (written.returncode, written.stdout) == (0, "")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert "secret_key" in target.read_text()
    again = bulkdeploy(settings, "inventory", "load", str(target))
    assert again.stdout == "Zone tiny: everything was there already.\n"


def test_the_demo_zone_comes_along() -> None:
    """The sample zone is found."""
    assert demo_zone_file() == DEMO
