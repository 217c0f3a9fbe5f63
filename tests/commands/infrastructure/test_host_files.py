"""``bulkdeploy hosts push``, and hosts that are added: all hosts have the files that the settings declare."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.manage.hypervisors.hosts import EQUAL, FAILED, PUSHED
from bulkdeploy.manage.main import main
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.host_files import read_host_files
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.hypervisors.drivers import always
from tests.support.zones.fleet import Fleet

PATH = "/etc/app/app.conf"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The file here that hosts get a copy of."""
    file = tmp_path / "app.conf"
    file.write_text("answer = 42\n")
    return file


@pytest.fixture
def system(
    settings: Settings, engine: Engine, cipher: FernetCipher, fleet_simulator_url: str, source: Path
) -> Iterator[System]:
    """One that gives new hosts the file."""
    driver = SimulatorDriver(fleet_simulator_url)
    files = partial(read_host_files, settings.model_copy(update={"host_files": {PATH: source}}))
    made = System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
    yield replace(made, host_files=files)
    driver.close()


def run(fleet: Fleet, source: Path, *arguments: str, path: str = PATH) -> Result:
    """A program, on the fleet's database and hypervisors."""
    environment = {
        "BULKDEPLOY_DATABASE_URL": fleet.settings.require_database_url(),
        "BULKDEPLOY_DATA_DIR": str(fleet.settings.data_dir),
        "BULKDEPLOY_DRIVERS": json.dumps(fleet.settings.drivers),
        "BULKDEPLOY_DRIVER": json.dumps(fleet.settings.driver),
        "BULKDEPLOY_HOST_FILES": json.dumps({path: str(source)}),
    }
    return CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)


def push(fleet: Fleet, source: Path, *arguments: str, path: str = PATH) -> Result:
    """``bulkdeploy hosts push``."""
    return run(fleet, source, "hosts", "push", *arguments, path=path)


def on_hosts(fleet: Fleet) -> dict[str, str]:
    """What the file says on each host that has it."""
    rows = fleet.control.execute(
        "SELECT h.name, f.content FROM simulator.files f JOIN simulator.hosts h ON h.uuid = f.host_uuid"
    )
    return {name: bytes(content).decode() for name, content in rows}


def test_all_hosts_get_a_file_that_differs(fleet: Fleet, source: Path) -> None:
    """Put where it differs, as the exit code says; on a host that does not answer it fails, and nowhere else."""
    assert (push(fleet, source, "--dry-run").exit_code, on_hosts(fleet)) == (PUSHED, {})
    first = push(fleet, source)
    assert (first.exit_code, f"{len(fleet.addresses())} hosts have all files" in first.output) == (PUSHED, True)
    assert set(on_hosts(fleet).values()) == {"answer = 42\n"}
    assert len(on_hosts(fleet)) == len(fleet.addresses())
    again = push(fleet, source)
    assert (again.exit_code, again.output) == (
        EQUAL,
        f"{len(on_hosts(fleet))} hosts have all files; none left out\n",
    )
    fleet.control.execute("UPDATE simulator.files SET content = 'changed by hand' WHERE host_uuid = (SELECT uuid"
                          " FROM simulator.hosts WHERE name = 'a-1-2')")  # fmt: skip
    (host,) = [one for one in json.loads(push(fleet, source, "--json").stdout)["hosts"] if one["files"]]
    assert (host["host"], host["files"]) == ("a-1-2", [PATH])
    assert run(fleet, source, "audit").exit_code == 0
    source.chmod(0o755)
    assert push(fleet, source, "--dry-run").exit_code == PUSHED
    assert [push(fleet, source).exit_code for _ in range(2)] == [PUSHED, EQUAL]
    source.write_text("answer = 43\n")
    audited = run(fleet, source, "audit")
    assert (audited.exit_code, "hosts have the files that host_files declares (12 checked)" in audited.output) == (
        1,
        True,
    )
    assert cut_off(fleet.control, "b-1-1")
    partly = push(fleet, source)
    assert (partly.exit_code, "FAILED  b-1-1" in partly.output) == (FAILED, True)
    assert {name for name, content in on_hosts(fleet).items() if "42" in content} == {"b-1-1"}
    assert join_again(fleet.control, "b-1-1")
    assert push(fleet, source, "--host", "b-1-1").exit_code == PUSHED
    assert push(fleet, source).exit_code == EQUAL


def test_what_can_not_be_a_file_of_hosts_is_refused(fleet: Fleet, source: Path, tmp_path: Path) -> None:
    """In one line that names the setting; nothing is put."""
    for path, wrong in ((PATH, tmp_path / "nothing"), ("etc/app.conf", source), ("/etc/../app.conf", source)):
        refusal = push(fleet, wrong, path=path)
        assert (refusal.exit_code, refusal.output.startswith("Error: host_files: ")) == (1, True)
    source.write_text("")
    assert "has 0 bytes" in push(fleet, source).output
    assert on_hosts(fleet) == {}


def test_a_host_that_is_added_gets_them(fleet: Fleet, client: ApiClient, source: Path) -> None:
    """Before it takes VMs; where the file cannot be read the host is not added."""
    named = {name: fleet.zone.id_of(table, row) for name, table, row in (
        ("zoneid", "zones", "small"), ("podid", "pods", "pod-a"), ("clusterid", "clusters", "a-1"))}  # fmt: skip
    login = {"hypervisor": "KVM", "username": "any", "password": "any"}
    client.call("addHost", url="http://10.0.1.77/newest", **named, **login)
    assert on_hosts(fleet) == {"newest": "answer = 42\n"}
    source.unlink()
    failed = refused(client, "addHost", url="http://10.0.1.78/next", **named, **login)
    assert (failed.status, "host_files" in str(failed)) == (534, True)
    assert client.call("listHosts", name="next") == {}
