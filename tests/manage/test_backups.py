"""`db dump` and `db restore`: what is destroyed after a dump is there again, and numbers go on."""

import subprocess
import time
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import psycopg
import pytest

from bulkdeploy.embedded.postgres import PostgresServer
from tests.support.api.api_client import ApiClient
from tests.support.processes.services import server_directory
from tests.support.processes.whole_service import WholeService, whole_service
from tests.support.runs.waiting import PATIENCE_S

VMS = 4


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path for the data of an ``up``."""
    with server_directory() as directory:
        yield directory


def _client(service: WholeService) -> ApiClient:
    deadline = time.monotonic() + PATIENCE_S
    while not (service.data_dir / "bulkmonkey.config").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = ConfigParser()
    found.read_string("[file]\n" + (service.data_dir / "bulkmonkey.config").read_text())
    return ApiClient(service.url, found["admin"]["apikey"], found["admin"]["secretkey"])


def _running(client: ApiClient) -> set[str]:
    vms = client.call("listVirtualMachines", listall=True).get("virtualmachine", [])
    return {vm["id"] for vm in vms if vm["state"] == "Running"}


def _deploy(client: ApiClient, count: int) -> None:
    first = {
        f"{name.lower()}id": client.call(f"list{name}s", **more)[name.lower()][0]["id"]
        for name, more in (("Zone", {}), ("ServiceOffering", {}), ("Template", {"templatefilter": "executable"}))
    }
    before = len(_running(client))
    client.call("bulkDeployVirtualMachine", **first, virtualmachinecount=count)
    deadline = time.monotonic() + PATIENCE_S
    while len(_running(client)) < before + count:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _destroy(service: WholeService) -> None:
    """Lose all tables of the stopped service; what its hypervisors hold stays."""
    server = PostgresServer(service.data_dir / "postgres", service.data_dir / "logs" / "postgres.log")
    server.start()
    try:
        with psycopg.connect(server.url("bulkdeploy"), autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
    finally:
        server.stop()


def _restore(service: WholeService, file: Path) -> subprocess.CompletedProcess[str]:
    return service.ended("db", "restore", str(file), "--yes")


@pytest.mark.long
def test_a_destroyed_database_is_restored_and_agrees_with_hypervisors(folder: Path) -> None:
    """Dumped while it runs, restored while it is stopped: the same VMs, a clean audit, and deployments go on."""
    file = folder / "backup.dump"
    with whole_service(folder / "data") as service:
        _deploy(_client(service), VMS)
        vms = _running(_client(service))
        service.run("db", "dump", str(file))
        again = service.ended("db", "dump", str(file))
        assert (again.returncode, "exists" in again.stderr) == (1, True)
        refused = _restore(service, file)
        assert (refused.returncode, "in use by another" in refused.stderr) == (1, True)
        assert _running(_client(service)) == vms
    assert file.stat().st_mode & 0o077 == 0
    nothing = folder / "nothing.dump"
    nothing.write_text("no dump")
    assert _restore(service, nothing).returncode == 1
    service.run("db", "dump", str(folder / "stopped.dump"))
    _destroy(service)
    restored = _restore(service, file)
    assert restored.returncode == 0, restored.stderr
    assert "Numbers go on" in restored.stdout
    with whole_service(folder / "data") as service:
        assert _running(_client(service)) == vms
        service.run("audit")
        _deploy(_client(service), 1)
        service.run("audit")


@pytest.mark.long
def test_a_configured_database_is_restored_by_its_own_server(folder: Path) -> None:
    """The database of a server that the settings name; while a session is open nothing is changed."""
    server = PostgresServer(folder / "server", folder / "server.log", sync=False)
    server.start()
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE elsewhere")
        config = folder / "settings.toml"
        config.write_text(f'database_url = "{server.url("elsewhere")}"')
        service = WholeService(folder / "data", "", config)
        service.run("db", "upgrade")
        service.run("db", "dump", str(folder / "dump"))
        with psycopg.connect(server.url("elsewhere"), autocommit=True) as connection:
            connection.execute("ALTER TABLE accounts RENAME TO lost")
            refused = _restore(service, folder / "dump")
            assert (refused.returncode, "stop all programs" in refused.stderr) == (1, True)
            assert connection.execute("SELECT count(*) > 0 FROM lost").fetchone() == (True,)
        assert _restore(service, folder / "dump").returncode == 0
        with psycopg.connect(server.url("elsewhere")) as connection:
            assert connection.execute("SELECT count(*) > 0 FROM accounts").fetchone() == (True,)
            assert connection.execute("SELECT to_regclass('lost')").fetchone() == (None,)
    finally:
        server.stop()
