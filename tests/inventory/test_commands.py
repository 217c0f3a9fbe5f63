"""``bulkdeploy inventory``: the commands, as an operator runs them, with simulated hypervisors behind."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Engine, text

from bulkdeploy.drivers.simulator.database import connect, derived_url, drop_database
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.inventory import list_hosts
from bulkdeploy.manage.programs.programs import environment
from bulkdeploy.manage.zone_files.inventory import demo_zone_file, load_first_zone
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.wiring.settings import Settings
from tests.inventory.support import DEMO, TINY, all_rows, changed, write
from tests.support.processes.programs import BULKDEPLOY, bulkdeploy


@pytest.fixture
def simulator_url(settings: Settings) -> Iterator[str]:
    """Where the simulated hypervisors of this test keep their state."""
    url = derived_url(settings.require_database_url())
    yield url
    drop_database(url)


def names(simulator_url: str) -> list[str]:
    """The hosts that the simulated hypervisors know."""
    with connect(simulator_url) as connection:
        return [use.host.name for use in list_hosts(connection)]


def test_load_reports_what_it_did(settings: Settings, simulator_url: str, tmp_path: Path) -> None:
    """The first load lists what was created, the second that everything was there."""
    file = write(tmp_path, TINY)
    first = bulkdeploy(settings, "inventory", "load", str(file))
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("created: 1 domains")
    assert "2 hosts" in first.stdout
    second = bulkdeploy(settings, "inventory", "load", str(file))
    assert second.stdout == "Everything was there already.\n"
    variables = environment(settings, dict(os.environ))
    piped = [sys.executable, *BULKDEPLOY, "inventory", "load", "-"]
    for written, printed in (
        (file.read_text(), "Everything was there already."),
        ("zones: 1", "standard input:1: "),
    ):
        ended = subprocess.run(piped, env=variables, input=written, capture_output=True, text=True)
        assert printed in ended.stdout + ended.stderr
    assert names(simulator_url) == ["host-1", "host-2"]


def test_load_refuses_with_every_problem_and_no_traceback(
    settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    """A bad file ends with exit code 1 and one line per problem."""
    before = all_rows(engine)
    bad = write(tmp_path, changed("100 GiB", "much", changed("cpunumber: 1", "cpunumber: x")))
    result = bulkdeploy(settings, "inventory", "load", str(bad))
    assert result.returncode == 1
    assert "zone.yaml:7: serviceofferings[0].cpunumber: " in result.stderr
    assert "zone.yaml:25: zones[0].pods[0].clusters[0].storagepools[0].capacitybytes: " in result.stderr
    assert "Traceback" not in result.stderr
    assert all_rows(engine) == before


def test_rows_and_hypervisors_agree_after_a_load(settings: Settings, engine: Engine, simulator_url: str) -> None:
    """After loading the sample zone the audit finds rows and hypervisors in agreement, also at the next start."""
    for _ in range(2):
        load_first_zone(settings, demo_zone_file())
        driver = SimulatorDriver(simulator_url)
        findings = audit(engine, [driver])
        driver.close()
        assert [breach for finding in findings for breach in finding.breaches] == []
        assert len(names(simulator_url)) == 120


@pytest.mark.parametrize("path", sorted(DEMO.parent.glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("simulator_url")
def test_a_zone_file_that_comes_along_makes_a_zone(
    settings: Settings, engine: Engine, tmp_path: Path, path: Path
) -> None:
    """It has hosts and a network with addresses. The servers of kvm.yaml are simulated here."""
    file = path.read_text().replace("qemu+ssh://root@", "http://").replace("/system#", "/")
    load_first_zone(settings, write(tmp_path, file))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM hosts WHERE state = 'Up'")).scalar_one() >= 3
        assert connection.execute(text("SELECT allocation_state FROM zones")).scalar_one() == "Enabled"
        assert connection.execute(text("SELECT count(*) FROM ip_ranges")).scalar_one() > 0


def test_simulated_hosts_are_made_known_again(settings: Settings, simulator_url: str, tmp_path: Path) -> None:
    """At the next start a new database of the simulator learns of all hosts."""
    load_first_zone(settings, write(tmp_path, TINY))
    drop_database(simulator_url)
    load_first_zone(settings, write(tmp_path, TINY))
    assert names(simulator_url) == ["host-1", "host-2"]


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


def test_hosts_without_a_driver_are_refused(settings: Settings, engine: Engine, tmp_path: Path) -> None:
    """Nobody knows what a machine has that no driver reaches: told by its line, and nothing is written."""
    before = all_rows(engine)
    no_driver = settings.model_copy(update={"drivers": {"XenServer": "simulator"}})
    result = bulkdeploy(no_driver, "inventory", "load", str(write(tmp_path, TINY)))
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)
    assert "zone.yaml:24: zones[0].pods[0].clusters[0].hosts[0].hypervisor: " in result.stderr
    assert all_rows(engine) == before


def test_export_writes_a_file_that_loads(settings: Settings, simulator_url: str, tmp_path: Path) -> None:
    """An export goes to the terminal, or to a file that only its owner reads, and changes nothing when loaded."""
    assert simulator_url
    file = changed("username: ann", "username: ann, userapikey: ann-key-00000001, usersecretkey: ann-secret-0001")
    bulkdeploy(settings, "inventory", "load", str(write(tmp_path, file)))
    printed = bulkdeploy(settings, "inventory", "export")
    assert [zone["name"] for zone in yaml.safe_load(printed.stdout)["zones"]] == ["tiny"]
    assert "usersecretkey" not in printed.stdout
    target = tmp_path / "export.yaml"
    written = bulkdeploy(
        settings, "inventory", "export", "--output", str(target), "--with-secrets", "--zone", "tiny"
    )
    assert (written.returncode, written.stdout) == (0, "")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert "ann-secret-0001" in target.read_text()
    again = bulkdeploy(settings, "inventory", "load", str(target))
    assert again.stdout == "Everything was there already.\n"


def test_the_demo_zone_comes_along() -> None:
    """The sample zone is found."""
    assert demo_zone_file() == DEMO
