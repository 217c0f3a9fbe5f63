"""Promises of the embedded Valkey."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bulkdeploy.embedded.processes import ServerFailed
from bulkdeploy.embedded.valkey import ValkeyServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A running server."""
    server = ValkeyServer(tmp_path / "valkey.log")
    server.start()
    yield server
    server.stop()


def test_url_opens_it(server: ValkeyServer) -> None:
    """Who has the URL can use it."""
    with redis.Redis.from_url(server.url(3)) as client:
        client.set("key", "value")
        assert client.get("key") == b"value"


def test_without_the_password_it_stays_closed(server: ValkeyServer) -> None:
    """Other users of the machine are refused, and the password is in no command line."""
    with (
        redis.Redis(host="127.0.0.1", port=server.port, retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        client.ping()
    assert server.process is not None
    assert server.password not in " ".join(psutil.Process(server.process.pid).cmdline())


def test_full_memory_refuses_writes_and_drops_nothing(server: ValkeyServer) -> None:
    """Messages are never evicted."""
    with redis.Redis.from_url(server.url()) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_killed_server_starts_again_on_the_same_url(server: ValkeyServer) -> None:
    """After kill -9 the same URL works again, empty."""
    url = server.url()
    with redis.Redis.from_url(url) as client:
        client.set("key", "value")
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    server.start()
    with redis.Redis.from_url(url) as client:
        assert client.get("key") is None


def test_a_port_in_use_is_an_error(server: ValkeyServer, tmp_path: Path) -> None:
    """A second server on the same port does not pretend to run."""
    second = ValkeyServer(tmp_path / "second.log", port=server.port)
    with pytest.raises(ServerFailed):
        second.start()
    second.stop()
