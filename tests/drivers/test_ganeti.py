"""The driver for Ganeti, against what a live cluster was recorded to answer, over HTTPS."""

import hashlib
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from sqlalchemy import Engine

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.ganeti.options import GanetiOptions
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.drivers.ganeti_guest import (
    ADDRESSES,
    GUEST,
    PAIR,
    THREE,
    VOLUME,
    life,
    mirrored_life,
    start_together,
)
from tests.support.processes.certificates import self_signed
from tests.support.runs.waiting import PATIENCE_S

FOLDER = Path(__file__).parent
EXCHANGES = json.loads((FOLDER / "ganeti_exchanges.json").read_bytes())
DRBD_EXCHANGES = json.loads((FOLDER / "ganeti_drbd_exchanges.json").read_bytes())
BULK_EXCHANGES = json.loads((FOLDER / "ganeti_bulk_exchanges.json").read_bytes())


class Replay:
    """What comes next: each request is answered as it was recorded, a look at jobs as often as it is asked for.

    ``lost``: the first creation is done, and its answer lost. ``lost_path``: so is the first request to such a
    path, and its job is not asked for by number.
    """

    def __init__(
        self, exchanges: Sequence[Mapping[str, Any]] = EXCHANGES, *, lost: bool = False, lost_path: str = ""
    ) -> None:
        self._left = [one for one in exchanges if "step" not in one]
        self._lost, self._lost_path = lost, lost_path
        self._again: Mapping[str, Any] | None = None
        self.unexpected: list[tuple[str, str]] = []
        self.bodies: list[Any] = []

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any] | None:
        """Status and body; None: the connection breaks."""
        if path.endswith("/wait"):  # nothing has changed yet
            return 200, None
        is_look = path == "/2/query/job"
        if self._again is not None and is_look and self._left[0]["path"] != path:
            return self._again["status"], self._again["answer"]
        if not self._left or (self._left[0]["method"], self._left[0]["path"]) != (method, path):
            self.unexpected.append((method, path))
            self.bodies.append(body)
            return 500, {"code": 500, "message": "not recorded", "explain": f"{method} {path}"}
        found = self._left.pop(0)
        self._again = found if is_look else None
        self.bodies.append(body)
        if self._lost and method == "POST":
            self._lost = False
            there = next(one for one in self._left if one["method"] == "GET" and "c1.bulkdeploy" in one["path"])
            self._left[0] = there  # instead of the job, whose number nobody heard
            return None
        if self._lost_path and path.endswith(self._lost_path):
            self._lost_path = ""
            while "opresult" in ((self._left[0]["request"] or {}).get("fields") or ()):
                self._left.pop(0)
            return None
        return found["status"], found["answer"]

    @property
    def is_over(self) -> bool:
        """Whether everything was asked for."""
        return not self._left


certificate_in = cache(self_signed)
"""One for each test, however often its server is started."""


@contextmanager
def cluster(replay: Replay, directory: Path, port: int = 0) -> Iterator[tuple[str, str]]:
    """A RAPI that answers from a replay, on any port; its url and its certificate's fingerprint."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            found = replay.answer(self.command, self.path.partition("?")[0], body)
            if found is None:
                self.close_connection = True
                self.connection.close()
                return
            content = json.dumps(found[1]).encode()
            self.send_response(found[0])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - the names are the server's

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    certificate, key = certificate_in(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    try:
        yield f"https://127.0.0.1:{server.server_port}", hashlib.sha256(der).hexdigest()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def driver_for(
    engine: Engine,
    *urls: str,
    fingerprint: str,
    nic_mode: str = "bridged",
    disk_template: str = "sharedfile",
    hosts: Sequence[HostAddress] = ADDRESSES,
    directory: type[FixedDirectory] = FixedDirectory,
    **more: Any,
) -> GanetiDriver:
    """A driver of the recorded cluster; ``more``: further options."""
    options = GanetiOptions.model_validate(
        {
            "urls": urls,
            "username": "bulkdeploy",
            "password": "secret",
            "fingerprint": fingerprint,
            "hypervisor": "fake",
            "disk_template": disk_template,
            "nic_mode": nic_mode,
            "nic_link": "br0",
            **more,
        }
    )
    driver = GanetiDriver.from_options(options)
    kept = records_in(engine, lambda _: True)
    driver.use_records(replace(kept, directory=directory(hosts, shared_pool(VOLUME.pool_uuid))))
    return driver


SILENT = "https://127.0.0.1:9"
"""Nobody answers there: a node that is not the master."""


def test_a_guest_lives_as_recorded(engine: Engine, tmp_path: Path) -> None:
    """Made once, started, migrated, stopped and removed; asked of the second address, for the first is silent."""
    replay = Replay()
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, SILENT, url, fingerprint=fingerprint)
        seen = dict(life(driver))
        driver.close()
    running = Guest(GUEST.uuid, ADDRESSES[0].uuid, PowerState.RUNNING, 1, 500, 16, frozenset({VOLUME.uuid}))
    assert replay.unexpected == []
    assert replay.is_over
    assert seen == {
        "started": [running],
        "started again": PowerState.RUNNING,
        "migrated": [
            Guest(GUEST.uuid, ADDRESSES[1].uuid, PowerState.RUNNING, 1, 500, 16, frozenset({VOLUME.uuid}))
        ],
        "stopped": ([], [(VOLUME.uuid, VOLUME.pool_uuid, VOLUME.size_bytes)]),
        "removed": ([], []),
    }
    made = [body for body in replay.bodies if body and body.get("mode") == "create"]
    assert [(one["instance_name"], one["pnode"], one["start"]) for one in made] == [
        (f"{GUEST.uuid}.bulkdeploy", "node1", True)
    ]


def test_guests_that_start_together_are_made_by_one_request(engine: Engine, tmp_path: Path) -> None:
    """Each on the node that was chosen for it; Ganeti is asked once for both, and nothing is asked twice."""
    replay = Replay(BULK_EXCHANGES)
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint)
        seen = dict(start_together(driver))
        driver.close()
    assert replay.unexpected == []
    assert replay.is_over
    assert [(guest.uuid, guest.host_uuid, guest.power) for guest in seen["started together"]] == [
        (guest.uuid, host.uuid, PowerState.RUNNING) for guest, host in zip(PAIR, ADDRESSES, strict=True)
    ]
    (wanted,) = (body["instances"] for body in replay.bodies if body and "instances" in body)
    assert [(one["instance_name"], one["pnode"], one["start"]) for one in wanted] == [
        (f"{guest.uuid}.bulkdeploy", host.name, True) for guest, host in zip(PAIR, ADDRESSES, strict=True)
    ]


def moved(bodies: Sequence[Any]) -> list[Any]:
    """What Ganeti was asked about nodes of instances that there are."""
    return [body for body in bodies if body and {"remote_node", "allow_failover", "ignore_consistency"} & set(body)]


def test_mirrored_guests_live_as_recorded(engine: Engine, tmp_path: Path) -> None:
    """Made by one request that names both nodes; moved to the secondary, and by way of a new one elsewhere."""
    replay = Replay(DRBD_EXCHANGES)
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint, disk_template="drbd", hosts=THREE)
        seen = dict(mirrored_life(driver))
        driver.close()
    assert replay.unexpected == []
    assert replay.is_over
    (wanted,) = (body["instances"] for body in replay.bodies if body and "instances" in body)
    assert [(one["pnode"], one["snode"]) for one in wanted] == [("node1", "node2"), ("node2", "node3")]
    for name, host in (("node2", THREE[1]), ("node3", THREE[2]), ("node1", THREE[0])):
        assert seen[f"migrated to {name}"] == [(host.uuid, PowerState.RUNNING)]
    assert (seen["stopped"], seen["removed"]) == ([], [])
    assert seen["started on another node"] == [(THREE[2].uuid, PowerState.RUNNING)]
    live, at_rest = {"allow_failover": False, "cleanup": False}, {"ignore_consistency": False}
    third, first = ({"mode": "replace_new_secondary", "remote_node": name} for name in ("node3", "node1"))
    assert moved(replay.bodies) == [live, third, live, first, live, at_rest]
    memory = [seen["memory"][host.uuid] for host in THREE]
    assert (memory[1] - memory[0], memory[0]) == (PAIR[0].memory_mib, memory[2])


@pytest.mark.parametrize("lost", ["replace-disks", "migrate", "failover"])
def test_a_mirrored_guest_moves_though_an_answer_is_lost(engine: Engine, tmp_path: Path, lost: str) -> None:
    """What Ganeti did all the same is seen, and not asked for again."""
    replay = Replay(DRBD_EXCHANGES, lost_path=lost)
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint, disk_template="drbd", hosts=THREE)
        seen = dict(mirrored_life(driver))
        driver.close()
    assert replay.unexpected == []
    assert seen["started on another node"] == [(THREE[2].uuid, PowerState.RUNNING)]


class RestartingDirectory(FixedDirectory):
    """Its database restarts when it is asked for the first time which hosts are closed."""

    _is_up = False

    def closed_hosts(self) -> Sequence[HostAddress]:
        """See Directory."""
        if not self._is_up:
            self._is_up = True
            raise ConnectionError("the database restarts")
        return super().closed_hosts()


def test_a_database_that_restarts_takes_no_place_in_ganetis_queue(engine: Engine, tmp_path: Path) -> None:
    """A batch that fails while secondaries are chosen leaves the next one all the jobs that may be in the queue."""
    looks = DRBD_EXCHANGES[:2]  # at what is there, before secondaries are chosen
    replay = Replay([*looks, *DRBD_EXCHANGES])
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(
            engine,
            url,
            fingerprint=fingerprint,
            disk_template="drbd",
            hosts=THREE,
            directory=RestartingDirectory,
            jobs_at_once=3,
        )
        with pytest.raises(ConnectionError):
            dict(start_together(driver))
        seen = dict(mirrored_life(driver))
        driver.close()
    assert seen["started on another node"] == [(THREE[2].uuid, PowerState.RUNNING)]
    (wanted,) = (body["instances"] for body in replay.bodies if body and "instances" in body)
    assert [(one["pnode"], one["snode"]) for one in wanted] == [("node1", "node2"), ("node2", "node3")]


def test_a_lost_answer_makes_no_second_instance(engine: Engine, tmp_path: Path) -> None:
    """The connection breaks once the creation was asked for: what it made is found, and goes on from there."""
    replay = Replay(lost=True)
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint)
        driver.ensure_running(ADDRESSES[0], GUEST, fence=1, timeout_s=PATIENCE_S)
        driver.close()
    assert replay.unexpected == []
    assert [body["pnode"] for body in replay.bodies if body and body.get("mode") == "create"] == ["node1"]


def test_a_disk_grows_to_a_size(engine: Engine, tmp_path: Path) -> None:
    """Not by so much more: a call that is repeated while the job of the first one still waits asks for no more."""
    replay = Replay()
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint)
        driver.ensure_running(ADDRESSES[0], GUEST, fence=1, timeout_s=PATIENCE_S)
        assert [guest.power for guest in driver.list_guests()] == [PowerState.RUNNING]
        larger = replace(VOLUME, size_bytes=9 << 20)
        with pytest.raises(DriverError, match="grow"):
            driver.ensure_resized(ADDRESSES[0], GUEST.uuid, larger, fence=1, timeout_s=PATIENCE_S)
        driver.close()
    assert [path.rpartition("/")[2] for _, path in replay.unexpected] == ["grow"]
    assert replay.bodies[-1] == {"amount": 9, "absolute": True, "wait_for_sync": True}


def rows_of(*rows: Sequence[Any]) -> dict[str, Any]:
    """Return the answer of Ganeti to a query: a status and a value for each field."""
    return {"data": [[[0 if value is not None else 2, value] for value in row] for row in rows]}


def exchange(method: str, path: str, answer: Any) -> dict[str, Any]:
    """Return an exchange as they are recorded."""
    return {"method": method, "path": path, "status": 200, "answer": answer}


def test_a_silent_node_is_noticed_and_set_offline_once_it_is_off(engine: Engine, tmp_path: Path) -> None:
    """All nodes are asked once, then silent ones alone; a lost answer sets no node offline twice."""
    flags = rows_of(*((host.name, False, False, True) for host in ADDRESSES))
    silent = rows_of(*((host.name, False, 4096 if index else None) for index, host in enumerate(ADDRESSES)))
    first, query = ADDRESSES[0].name, "/2/query/node"
    replay = Replay(
        [
            exchange("PUT", query, flags),
            exchange("PUT", query, silent),
            exchange("PUT", query, flags),
            exchange("PUT", query, rows_of((first, False, None))),
            exchange("PUT", query, rows_of((False,))),
            exchange("POST", f"/2/nodes/{first}/modify", 7),
            exchange("PUT", "/2/query/job", rows_of((7, "success", [[]]))),
            exchange("PUT", query, rows_of((True,))),
            exchange("PUT", query, flags),
            exchange("PUT", query, rows_of((first, False, 4096))),
            exchange("PUT", query, flags),
        ]
    )
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint)
        seen = [driver.look_at_hosts(ADDRESSES, timeout_s=PATIENCE_S) for _ in range(2)]
        for _ in range(2):
            driver.declare_off(ADDRESSES[0], timeout_s=PATIENCE_S)
        seen += [driver.look_at_hosts(ADDRESSES, timeout_s=PATIENCE_S) for _ in range(2)]
        driver.close()
    assert replay.unexpected == []
    assert replay.is_over
    assert [[isinstance(one, DriverError) for one in look] for look in seen] == [
        [index == 0 and number < 2 for index, _ in enumerate(ADDRESSES)] for number, _ in enumerate(seen)
    ]
    assert [body for body in replay.bodies if body and "offline" in body] == [
        {"offline": True, "auto_promote": True, "force": True}
    ]
    assert [
        body["qfilter"] for body in replay.bodies if body and body.get("fields") == ["name", "offline", "mtotal"]
    ] == [
        None,
        ["|", ["=", "name", first]],
        ["|", ["=", "name", first]],
    ]


def test_a_nic_without_an_address_is_not_routed(engine: Engine, tmp_path: Path) -> None:
    """Ganeti is not asked for an instance whose nic would have no route."""
    replay = Replay()
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint, nic_mode="routed")
        with pytest.raises(DriverError, match="the mode of a nic is routed, which requires an address") as refused:
            driver.ensure_running(ADDRESSES[0], GUEST, fence=1, timeout_s=PATIENCE_S)
        driver.close()
    assert (refused.value.step, refused.value.transient) == ("network", False)
    assert [body for body in replay.bodies if body and "instance_name" in body] == []


def test_what_guests_say_wins_over_options(engine: Engine, tmp_path: Path) -> None:
    """Parameters of disks and nics, and the template's variant, are part of what Ganeti is asked for."""
    volume = replace(VOLUME, parameters={"vg": "fast"})
    nic = replace(GUEST.nics[0], ip_address="10.1.0.7", parameters={"mode": "routed", "link": "table7"})
    guest = replace(GUEST, volumes=(volume,), nics=(nic,), template_variant="dev")
    replay = Replay()
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint)
        driver.ensure_running(ADDRESSES[0], guest, fence=1, timeout_s=PATIENCE_S)
        driver.close()
    (made,) = (body for body in replay.bodies if body and body.get("mode") == "create")
    assert made["disks"] == [{"vg": "fast", "size": 1, "name": str(VOLUME.uuid)}]
    named = {"mac": nic.mac_address, "name": str(nic.uuid)}
    assert made["nics"] == [{**named, "mode": "routed", "link": "table7", "ip": "10.1.0.7"}]
    assert made["os_type"] == "noop+dev"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"mode": "ovs", "link": "br1"}, {"mode": "openvswitch", "link": "br1"}),
        ({"network": "blue"}, {"network": "blue"}),
        ({}, {"mode": "bridged", "link": "br0"}),
    ],
)
def test_a_nic_is_bridged_or_switched(
    engine: Engine, tmp_path: Path, parameters: dict[str, str], expected: dict[str, str]
) -> None:
    """As its parameters say, or the options where it has none."""
    nic = replace(GUEST.nics[0], parameters=parameters)
    replay = Replay()
    with cluster(replay, tmp_path) as (url, fingerprint):
        driver = driver_for(engine, url, fingerprint=fingerprint)
        driver.ensure_running(ADDRESSES[0], replace(GUEST, nics=(nic,)), fence=1, timeout_s=PATIENCE_S)
        driver.close()
    (made,) = (body for body in replay.bodies if body and body.get("mode") == "create")
    assert made["nics"] == [{"mac": nic.mac_address, "name": str(nic.uuid), **expected}]


def test_a_master_that_is_away_is_waited_for(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that every address refused goes on once one serves again, and no instance is made twice."""
    replay, refused = Replay(), threading.Event()
    with cluster(replay, tmp_path) as (url, fingerprint):
        pass  # its port is free again
    port = int(url.rpartition(":")[2])
    with ThreadPoolExecutor(1) as threads, ExitStack() as stack:
        driver = driver_for(engine, url, fingerprint=fingerprint)
        send = driver._rapi.http.session.request

        def noting(*arguments: Any, **more: Any) -> requests.Response:
            try:
                return send(*arguments, **more)
            except requests.ConnectionError:
                refused.set()
                raise

        monkeypatch.setattr(driver._rapi.http.session, "request", noting)
        run = partial(driver.ensure_running, ADDRESSES[0], GUEST, fence=1, timeout_s=PATIENCE_S)
        started = threads.submit(run)
        assert refused.wait(PATIENCE_S)
        stack.enter_context(cluster(replay, tmp_path, port))
        started.result(PATIENCE_S)
        driver.close()
    assert [body["pnode"] for body in replay.bodies if body and body.get("mode") == "create"] == ["node1"]


def test_a_certificate_that_was_exchanged_is_refused(engine: Engine, tmp_path: Path) -> None:
    """Nothing is sent to a server that is not the pinned one."""
    replay = Replay()
    with cluster(replay, tmp_path) as (url, _):
        driver = driver_for(engine, url, fingerprint="00" * 32)
        with pytest.raises(DriverError, match="ingerprint"):
            driver.ensure_running(ADDRESSES[0], GUEST, fence=1, timeout_s=PATIENCE_S)
        driver.close()
    assert replay.bodies == []
    assert replay.unexpected == []
