"""Promises of the HTTP server that the API runs under."""

import http.client
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from sqlalchemy import Engine

from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.support.api.api_client import ApiClient
from tests.support.api.raw_connections import connected
from tests.support.processes.programs import (
    BULKDEPLOY,
    api_process,
    bulkdeploy,
    program,
    wait_for,
)
from tests.support.runs.waiting import PATIENCE_S
from tests.support.runs.waiting import wait_for as until

pytestmark = pytest.mark.long


@pytest.fixture
def server(settings: Settings, engine: Engine, cipher: FernetCipher, tmp_path: Path) -> Iterator[ApiClient]:
    """A client of a real API server process."""
    with engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    with api_process(settings, tmp_path / "api.log") as url:
        yield ApiClient(url, admin.api_key, cipher.decrypt(admin.secret_key_encrypted))


def test_urls_of_64_kib_and_more_are_read(server: ApiClient) -> None:
    """User data travels in the URL of a GET; a parameter of 90 KiB arrives and is part of the signature."""
    answer = server.get("listCapabilities", ignored="x" * 90 * 1024)
    assert answer.status == 200
    assert "capability" in answer.body


def test_urls_without_end_are_refused(server: ApiClient) -> None:
    """A URL beyond all use is refused before it fills the memory."""
    answer = server.get("listCapabilities", ignored="x" * 300 * 1024)
    assert (answer.status, answer.body["errorcode"]) == (414, 414)


def test_connections_are_kept(server: ApiClient) -> None:
    """Many calls go over one connection."""
    link = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    try:
        for _ in range(3):
            link.request("GET", "/health/live")
            response = link.getresponse()
            response.read()
            assert response.status == 200
            assert not response.will_close
    finally:
        link.close()


def test_a_missing_database_url_is_reported_in_one_line(tmp_path: Path) -> None:
    """Without a database the command ends with the setting's name and its variable, not a traceback."""
    ended = bulkdeploy(Settings(data_dir=tmp_path), "api")
    assert ended.returncode == 1
    assert "BULKDEPLOY_DATABASE_URL" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_stop_leaves_no_process(settings: Settings, tmp_path: Path) -> None:
    """SIGTERM ends the server and all its processes with success; until then they yield as they were told."""
    log, changed = tmp_path / "api.log", {"listen": "127.0.0.1:0", "api_niceness": 7}
    with program(settings.model_copy(update=changed), log, *BULKDEPLOY, "api") as process:
        family, yielding = list[psutil.Process](), {min(psutil.Process().nice() + 7, 19)}

        def all_run() -> bool:
            nonlocal family
            assert process.poll() is None, log.read_text()
            family = psutil.Process(process.pid).children(recursive=True)
            return len(family) >= settings.api_processes and {member.nice() for member in family} == yielding

        until(all_run)
    assert process.poll() == 0
    assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []


def test_figures_are_those_of_all_processes(server: ApiClient) -> None:
    """Whichever of the server's processes is asked for metrics, it answers for all of them."""
    for _ in range(12):
        assert server.get("listCapabilities").status == 200
    line = 'bulkdeploy_calls_total{command="listCapabilities",status="200"} 12.0'
    assert all(line in server.request("GET", "/metrics").text for _ in range(6))


def test_stopping_answers_the_calls_in_hand(settings: Settings, engine: Engine, tmp_path: Path) -> None:
    """After SIGTERM a call is still answered, while half requests and kept connections end at once."""
    log = tmp_path / "api.log"
    settings = settings.model_copy(update={"listen": f"127.0.0.1:{free_port()}", "api_processes": 1})
    whole = b"GET /client/api?response=json HTTP/1.1\r\nHost: x\r\n\r\n"
    with program(settings, log, *BULKDEPLOY, "api") as process, ThreadPoolExecutor(1) as pool:
        wait_for(f"{settings.url}/health/ready", process, log)
        with connected(settings.url, 2) as (half, kept):
            half.send(whole[:20])
            kept.send(whole)
            assert kept.answer().startswith(b"HTTP/1.1 401 ")
            with engine.begin() as connection:
                connection.exec_driver_sql("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
                calling = pool.submit(ApiClient(settings.url, "x", "x").get, "listZones")
                while not connection.exec_driver_sql("SELECT 1 FROM pg_locks WHERE NOT granted").first():
                    time.sleep(0.05)
                process.terminate()
                assert half.rest() == kept.rest() == b""
            answer = calling.result()
    assert (answer.status, process.poll()) == (401, 0)
    assert "Traceback" not in log.read_text()


def test_a_process_that_is_to_end_sends_callers_elsewhere_first(settings: Settings, tmp_path: Path) -> None:
    """For ``shutdown_delay_seconds`` it is alive and not ready, calls are answered, connections are not kept.

    The connection that is accepted last is heard out, however late its call arrives before the end.
    """
    log = tmp_path / "api.log"
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("listen", "monitoring_listen")}
    settings = settings.model_copy(update={**addresses, "api_processes": 1, "shutdown_delay_seconds": 6.0})
    whole = b"GET /client/api?response=json HTTP/1.1\r\nHost: x\r\n\r\n"
    with program(settings, log, *BULKDEPLOY, "api") as process:
        ready = f"{settings.api_monitoring_url}/health/ready"
        wait_for(ready, process, log)
        with connected(settings.url, 2) as (kept, late):
            kept.send(whole)
            assert b"connection: close" not in kept.answer().lower()
            process.terminate()
            wait_for(ready, process, log, statuses=[503])
            wait_for(ready.replace("ready", "live"), process, log)
            kept.send(whole)
            assert b"connection: close" in kept.answer().lower()
            assert kept.rest() == b""
            while _listens(settings.listen):
                time.sleep(0.05)
            late.send(whole)
            assert late.answer().startswith(b"HTTP/1.1 401 ")
    assert process.wait() == 0
    assert "Traceback" not in log.read_text()


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return False
    return True
