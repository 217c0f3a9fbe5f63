"""The driver for Incus, against what a live cluster was recorded to answer, over a socket in the file system."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.driver import DriverError, Guest, PowerState, StaleFence
from bulkdeploy.drivers.incus.driver import IncusDriver
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.options import WrongDriverOptions, read_options
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.drivers.incus_guest import ADDRESSES, DATA, GUEST, NIC, POOL, ROOT, TEMPLATE, life

EXCHANGES = json.loads((Path(__file__).parent / "incus_exchanges.json").read_bytes())
PATIENCE_S = 60.0


class Replay:
    """Each request is answered as it was recorded, in order; what was not recorded is kept as unexpected.

    ``changed``: the first compare-and-set finds that another was there before.
    """

    def __init__(self, *, changed: bool = False) -> None:
        self._left = list(EXCHANGES)
        self._changed = changed
        self.unexpected: list[tuple[str, str]] = []
        self.tags: list[tuple[str | None, str | None]] = []

    def answer(self, method: str, path: str, tag: str | None) -> tuple[int, Any, str | None]:
        """Status, body and tag."""
        if self._changed and method == "PUT" and tag is not None:
            self._changed = False
            return 412, {"type": "error", "error_code": 412, "error": "ETag doesn't match"}, None
        if not self._left or (self._left[0]["method"], self._left[0]["path"]) != (method, path):
            self.unexpected.append((method, path))
            return 500, {"type": "error", "error_code": 500, "error": f"{method} {path} was not recorded"}, None
        found = self._left.pop(0)
        self.tags.append((tag, found["if_match"]))
        return found["status"], found["answer"], found["etag"]

    @property
    def is_over(self) -> bool:
        """Whether everything was sent."""
        return not self._left


class SocketServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """HTTP over a socket in the file system."""

    daemon_threads = True


@contextmanager
def cluster(replay: Replay, directory: Path) -> Iterator[str]:
    """An Incus that answers from a replay; its url."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body, tag = replay.answer(
                self.command, self.path.partition("?")[0], self.headers.get("If-Match")
            )
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if tag is not None:
                self.send_header("ETag", tag)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the names are the server's

        def address_string(self) -> str:
            """A socket in the file system has no address."""
            return "client"

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    path = directory / "socket"
    server = SocketServer(str(path), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def driver_for(engine: Engine, **options: Any) -> IncusDriver:
    """A driver of the recorded cluster."""
    given = {"storage_pools": {"shared": "local"}, "images": {"busybox": "busybox"}, "default_label": "guests"}
    driver = IncusDriver.from_options(IncusOptions.model_validate({**given, **options}))
    kept = records_in(engine, lambda _: True)
    driver.use_records(replace(kept, directory=FixedDirectory(ADDRESSES, shared_pool(POOL), TEMPLATE)))
    return driver


def assert_lived(seen: dict[str, Any]) -> None:
    """What the driver said of the guest, step by step."""
    devices = frozenset({ROOT.uuid, DATA.uuid}), frozenset({NIC.uuid})
    first, second = (host.uuid for host in ADDRESSES)
    running = Guest(GUEST.uuid, first, PowerState.RUNNING, 1, 500, 16, *devices)
    assert seen == {
        "started": [running],
        "started again": PowerState.RUNNING,
        "scaled": [replace(running, cpu_number=2, memory_mib=32)],
        "stopped": ([], [(one.uuid, POOL, one.size_bytes) for one in (ROOT, DATA)]),
        "started elsewhere": [replace(running, host_uuid=second)],
        "removed": ([], []),
    }


def test_a_guest_lives_as_recorded(engine: Engine, tmp_path: Path) -> None:
    """Made, started, scaled, stopped, moved with its volumes, removed; each change under the tag that was read."""
    replay = Replay()
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=["unix:///nothing/there", url])
        seen = dict(life(driver))
        driver.close()
    assert replay.unexpected == []
    assert replay.is_over
    assert [sent for sent, _ in replay.tags] == [recorded for _, recorded in replay.tags]
    assert_lived(seen)


def test_who_meets_another_change_looks_again(engine: Engine, tmp_path: Path) -> None:
    """A refused compare-and-set is followed by a look, not by a start."""
    replay = Replay(changed=True)
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        with pytest.raises(DriverError, match="was not recorded"):
            driver.ensure_running(ADDRESSES[0], GUEST, fence=1, timeout_s=PATIENCE_S)
        driver.close()
    assert replay.unexpected == [("GET", f"/1.0/instances/vm-{GUEST.uuid}")]


def test_who_was_overtaken_sends_nothing(engine: Engine, tmp_path: Path) -> None:
    """A higher fence was seen for the guest, though it is not there."""
    replay = Replay()
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        driver._records.fences.raise_fence(GUEST.uuid, 5)
        with pytest.raises(StaleFence):
            driver.ensure_running(ADDRESSES[0], GUEST, fence=4, timeout_s=PATIENCE_S)
        driver.close()
    assert (replay.unexpected, replay.tags) == ([], [])


def test_wrong_options_are_refused_by_name() -> None:
    """A url that is none, https without a certificate; the socket of this machine needs no options."""
    assert read_options("incus", IncusOptions, {}).urls == ("unix:///var/lib/incus/unix.socket",)
    for url, problem in (("ftp://member1", "must begin with"), ("https://member1:8443", "certificate and key")):
        with pytest.raises(WrongDriverOptions, match=problem):
            read_options("incus", IncusOptions, {"urls": [url]})
