"""Promises of ``bulkdeploy up``: one command, no harm from kill -9, no process left."""

import configparser
import json
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import psutil
import pytest
from pydantic import SecretStr

from bulkdeploy.embedded.processes import ServerFailed
from bulkdeploy.manage.programs.api import FIGURES
from bulkdeploy.manage.programs.stack import Stack
from bulkdeploy.manage.up import emit
from bulkdeploy.wiring.settings import Settings
from tests.conftest import SECRET_KEY
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import BULKDEPLOY, bulkdeploy, program, wait_for
from tests.support.processes.services import server_directory
from tests.support.runs.waiting import PATIENCE_S

pytestmark = pytest.mark.long


def settings_on(folder: Path) -> Settings:
    """A data directory of its own; the embedded servers are used."""
    return Settings(data_dir=folder / "data", listen="127.0.0.1:0", api_processes=1, worker_processes=1)


@pytest.fixture
def settings(server_folder: Path) -> Settings:
    """Settings of an ``up`` that one test starts."""
    return settings_on(server_folder)


@dataclass(frozen=True, slots=True)
class Service:
    """A running ``up``."""

    settings: Settings
    process: subprocess.Popen[bytes]
    client: ApiClient
    log: Path


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """An ``up`` that several tests look at."""
    with (
        server_directory() as folder,
        running(settings_on(folder), folder / "log", workers=1) as (process, client),
    ):
        yield Service(settings_on(folder), process, client, folder / "log")


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """A process and all that descend from it."""
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def survivors(relatives: list[psutil.Process]) -> list[psutil.Process]:
    """Who of them still runs after a while; a zombie does not."""
    psutil.wait_procs(relatives, timeout=PATIENCE_S)
    return [one for one in relatives if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def credentials(settings: Settings) -> dict[str, str]:
    """What ``admin credentials`` says."""
    ended = bulkdeploy(settings, "admin", "credentials", "--json")
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@contextmanager
def running(
    settings: Settings, log: Path, *, workers: int = 0
) -> Iterator[tuple[subprocess.Popen[bytes], ApiClient]]:
    """``up``, ready, with a client of its API."""
    log.write_text("")
    with program(settings, log, *BULKDEPLOY, "up", "--workers", str(workers)) as process:
        assert isinstance(process, subprocess.Popen)
        deadline = time.monotonic() + PATIENCE_S
        while "ready: " not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        found = configparser.ConfigParser()
        found.read_string("[file]\n" + (settings.data_dir / "bulkmonkey.config").read_text())
        keys = found["admin"]
        url = keys["url"].removesuffix("/client/api")
        wait_for(f"{url}/health/ready", process, log)
        yield process, ApiClient(url, keys["apikey"], keys["secretkey"])


def test_killed_with_9_it_takes_its_children_along_and_starts_again(
    settings: Settings, server_folder: Path
) -> None:
    """After kill -9 no child survives; the next start has the same data, keys and password."""
    log = server_folder / "log"
    with running(settings, log, workers=1) as (process, _):
        before = credentials(settings)
        relatives = family(process)
        process.kill()
        process.wait()
        assert survivors(relatives) == []
    with running(settings, log) as (_, client):
        after = credentials(settings)
        assert client.get("listCapabilities").status == 200
    assert {**after, "url": ""} == {**before, "url": ""}


def test_killed_while_starting_it_does_no_harm(settings: Settings, server_folder: Path) -> None:
    """Killed while it makes data files, then while it starts its servers, then its programs: the next start works.

    It serves until told to stop: Ctrl-C ends everything with success and leaves no process behind.
    """
    log = server_folder / "log"
    for sign in ("postgres.new", "postgres/postmaster.pid", "running.json"):
        with program(settings, log, *BULKDEPLOY, "up", "--workers", "0") as process:
            deadline = time.monotonic() + PATIENCE_S
            while not (settings.data_dir / sign).exists():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.005)
            process.kill()
            process.wait()
    with running(settings, log) as (process, client):
        assert client.get("listCapabilities").status == 200
        relatives = family(process)
        assert {"postgres", "valkey-server"} <= {one.name() for one in relatives}
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    assert survivors(relatives) == []


def test_every_part_that_dies_comes_back(settings: Settings, server_folder: Path) -> None:
    """PostgreSQL, Valkey, the API, a worker: each is started again, and the API answers in the end."""
    with running(settings, server_folder / "log", workers=1) as (process, client):
        children = psutil.Process(process.pid).children()
        for child in children:
            child.kill()
        psutil.wait_procs(children, timeout=PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while not answers(client) or len(psutil.Process(process.pid).children()) < len(children):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert process.poll() is None


def test_configured_servers_are_used_instead(
    settings: Settings, server_folder: Path, database_url: str, redis_database_url: str
) -> None:
    """With both URLs set nothing is embedded."""
    settings = settings.model_copy(
        update={"database_url": database_url, "redis_url": redis_database_url, "secret_key": SecretStr(SECRET_KEY)}
    )
    with running(settings, server_folder / "log") as (process, client):
        assert client.get("listCapabilities").status == 200
        assert not (settings.data_dir / "postgres").exists()
        assert not {one.name() for one in family(process)} & {"postgres", "valkey-server"}


def test_a_second_start_on_the_same_data_is_refused(service: Service) -> None:
    """Two at once would harm each other: the second ends at once and names the first."""
    ended = bulkdeploy(service.settings, "up")
    assert ended.returncode == 1
    assert str(service.process.pid) in ended.stderr


def test_an_address_in_use_is_reported(service: Service, server_folder: Path) -> None:
    """An address that somebody else listens on ends the start in one line."""
    listen = service.client.url.removeprefix("http://")
    ended = bulkdeploy(settings_on(server_folder).model_copy(update={"listen": listen}), "up")
    assert ended.returncode == 1
    assert listen in ended.stderr
    assert "--listen" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_another_port_is_taken_where_none_was_asked_for(tmp_path: Path) -> None:
    """The default port may be in use: the service takes a free one and says so; a configured port stays."""
    lines: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        settings = Settings(data_dir=tmp_path, listen=taken)
        with pytest.raises(ServerFailed, match="--listen"):
            Stack(settings, emit)
        settings.model_fields_set.discard("listen")  # as if it were the default
        stack = Stack(settings, lambda _, line: lines.append(line))
    assert stack.settings.listen != taken
    assert any(taken in line and "--listen" in line for line in lines)


def test_ipv6_addresses_can_be_listened_on(tmp_path: Path) -> None:
    """``[::1]:0`` takes a free port of IPv6, wherever the machine has IPv6 at all."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        wanted = "127.0.0.1"  # a machine without IPv6
    else:
        wanted = "[::1]"
    stack = Stack(Settings(data_dir=tmp_path, listen=f"{wanted}:0"), emit)
    assert stack.url.startswith(f"http://{wanted}:")
    assert not stack.url.endswith(":0")


def test_generated_secrets_are_for_their_owner_only(service: Service) -> None:
    """Key, password and addresses lie in files of mode 600; the password is in no log."""
    password = credentials(service.settings)["password"]
    for name in ("secret.key", "admin.password", "running.json", "bulkmonkey.config"):
        assert stat.S_IMODE((service.settings.data_dir / name).stat().st_mode) == 0o600
    logs = [service.log, *(service.settings.data_dir / "logs").iterdir()]
    assert all(password not in log.read_text(errors="replace") for log in logs)


def test_password_is_shown_only_while_it_opens_the_door(service: Service) -> None:
    """``admin credentials`` leaves out a generated password that was changed since."""
    file = service.settings.data_dir / "admin.password"
    generated = file.read_text()
    assert credentials(service.settings)["password"] == generated.strip()
    file.write_text("no longer true\n")
    try:
        assert "password" not in credentials(service.settings)
    finally:
        file.write_text(generated)


def test_client_works_with_the_file_that_lies_ready(service: Service) -> None:
    """What the welcome says to try can be typed as it is."""
    (line,) = [line for line in service.log.read_text().splitlines() if "try:" in line]
    words = shlex.split(line.partition("try:")[2])
    assert words[0] == "bulkmonkey"
    for requested in (words[3:], ["list", "users", "-o", "json"]):
        arguments = [sys.executable, "-m", "bulkdeploy.cli.main", *words[1:3], *requested]
        ended = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S)
        assert ended.returncode == 0, ended.stderr
    assert [user["username"] for user in json.loads(ended.stdout)["user"]] == ["admin"]


def answers(client: ApiClient) -> bool:
    """Whether the API does its work."""
    try:
        return client.get("listCapabilities").status == 200
    except OSError:
        return False


def test_no_program_begins_before_the_database_is_ready(settings: Settings) -> None:
    """They load while it is made, and touch nothing; where making it fails they end without having begun."""
    said: list[str] = []
    api: list[int] = []
    stack = Stack(settings, lambda name, line: said.append(f"{name}: {line}"))

    def never_ready(_: Settings) -> None:
        programs = [
            psutil.Process(pid)
            for name, pid in stack.supervisor.pids().items()
            if name not in ("postgres", "valkey")
        ]
        used_s = -1.0
        while (now_s := sum(one.cpu_times().user for one in programs)) > used_s:
            used_s = now_s
            time.sleep(1.0)
        assert len(programs) == 3
        api.append(stack.supervisor.pids()["api"])
        raise DatabaseSpoilt

    try:
        with pytest.raises(DatabaseSpoilt):
            stack.start(never_ready)
    finally:
        stack.stop()
    assert said == []
    assert list(Path(gettempdir()).glob(f"{FIGURES}{api[0]}-*")) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(stack.url.rpartition(":")[2])))


class DatabaseSpoilt(Exception):
    """What a test lets happen."""
