"""Promises of the HTTP server that the API runs under."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from sqlalchemy import Engine

from bulkdeploy.store.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.support.api_client import ApiClient
from tests.support.programs import BULKDEPLOY, api_process, bulkdeploy, program


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
    assert server.get("listCapabilities", ignored="x" * 300 * 1024).status in (400, 414)


def test_connections_are_kept(server: ApiClient) -> None:
    """Many calls go over one connection."""
    link = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    try:
        for _ in range(3):
            link.request("GET", "/health/live")
            response = link.getresponse()
            response.read()
            assert response.status == 200
            assert not response.will_close
    finally:
        link.close()


def test_missing_database_url_is_told_in_one_line(tmp_path: Path) -> None:
    """Without a database the command ends with the setting's name and its variable, not a traceback."""
    ended = bulkdeploy(Settings(data_dir=tmp_path), "api")
    assert ended.returncode == 1
    assert "BULKDEPLOY_DATABASE_URL" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_stop_leaves_no_process(settings: Settings, tmp_path: Path) -> None:
    """SIGTERM ends the server and all its processes with success."""
    log = tmp_path / "api.log"
    with program(settings.model_copy(update={"listen": "127.0.0.1:0"}), log, *BULKDEPLOY, "api") as process:
        family: list[psutil.Process] = []
        while len(family) < settings.api_processes:
            assert process.poll() is None, log.read_text()
            family = psutil.Process(process.pid).children(recursive=True)
    assert process.returncode == 0
    assert psutil.wait_procs(family, timeout=10)[1] == []


def test_figures_are_those_of_all_processes(server: ApiClient) -> None:
    """Whichever of the server's processes is asked for metrics, it answers for all of them."""
    for _ in range(12):
        assert server.get("listCapabilities").status == 200
    line = 'bulkdeploy_calls_total{command="listCapabilities",status="200"} 12.0'
    assert all(line in server.request("GET", "/metrics").text for _ in range(6))
