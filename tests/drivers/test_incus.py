"""The driver for Incus, against what a live cluster was recorded to answer, over a socket in the file system."""

import base64
import gzip
import json
import socketserver
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine
from websockets.sync.server import ServerConnection, unix_serve

from bulkdeploy.drivers.abilities.consoles import VncConsoles
from bulkdeploy.drivers.errors import DriverError, StaleFence
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from bulkdeploy.drivers.incus.driver import IncusDriver, access_of
from bulkdeploy.drivers.incus.events import open_events
from bulkdeploy.drivers.incus.guest_data import cloud_init_keys
from bulkdeploy.drivers.incus.instance import Volume, read_volume
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.options import WrongDriverOptions, read_options
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.drivers.incus_guest import ADDRESSES, DATA, GUEST, NIC, POOL, ROOT, TEMPLATE, life
from tests.support.runs.waiting import PATIENCE_S

EXCHANGES = json.loads((Path(__file__).parent / "incus_exchanges.json").read_bytes())


class Replay:
    """Each request is answered as it was recorded, in order; what was not recorded is kept as unexpected.

    ``changed``: the first compare-and-set finds that another was there before.
    """

    def __init__(self, exchanges: Sequence[Mapping[str, Any]] = EXCHANGES, *, changed: bool = False) -> None:
        self._left = list(exchanges)
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


def said(path: str, value: Any, method: str = "GET", **more: Any) -> dict[str, Any]:
    """An exchange: what the API says of a path; or an error, or an operation with ``more``."""
    answer = {"type": "sync", "metadata": value, **more}
    return {
        "method": method, "path": path, "if_match": None, "etag": None,
        "status": more.get("error_code", 200), "answer": answer,
    }  # fmt: skip


INSTANCE = f"/1.0/instances/vm-{GUEST.uuid}"
RUNNING: dict[str, Any] = next(
    one["answer"]["metadata"][0] for one in EXCHANGES if (one["method"], one["path"]) == ("GET", "/1.0/instances")
)
"""The guest in a list of all instances, while it runs."""

SERVER: dict[str, Any] = {"auth": "trusted", "environment": {"server_clustered": True}}


def seen_on_first(engine: Engine, directory: Path, instance: Mapping[str, Any]) -> Sequence[Guest] | DriverError:
    """What a look at the first member finds, where one instance is listed and the member answers."""
    replay = Replay(
        [said("/1.0/instances", [instance]), said("/1.0", SERVER), said("/1.0/cluster/members/member1/state", {})]
    )
    with cluster(replay, directory) as url:
        driver = driver_for(engine, urls=[url])
        try:
            (found,) = driver.look_at_hosts(ADDRESSES[:1], timeout_s=PATIENCE_S)
        finally:
            driver.close()
    return found


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


@pytest.mark.parametrize("status", ["Running", "Ready", "Frozen", "Thawed", "Aborting", "Error"])
def test_what_may_run_counts_as_running(engine: Engine, tmp_path: Path, status: str) -> None:
    """Ready, which guests say themselves; Error, where the member answers and cannot tell."""
    found = seen_on_first(engine, tmp_path, {**RUNNING, "status": status})
    assert found == [
        Guest(
            GUEST.uuid, ADDRESSES[0].uuid, PowerState.RUNNING, 1, 500, 16,
            frozenset({ROOT.uuid, DATA.uuid}), frozenset({NIC.uuid}),
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({"limits.cpu": "0-3,8", "limits.memory": "512MB"}, (5, 488)),
        ({"limits.cpu": "2", "limits.memory": "1TiB"}, (2, 1 << 20)),
        ({"limits.cpu": "2", "limits.memory": "50%"}, (2, 0)),
        ({}, (0, 0)),
    ],
)
def test_limits_set_by_hand_are_read(
    engine: Engine, tmp_path: Path, limits: Mapping[str, str], sizes: tuple[int, int]
) -> None:
    """Sets of CPUs, all units of Incus, shares of a member, none at all; and a device called nearly as ours."""
    config = {key: value for key, value in RUNNING["config"].items() if not key.startswith("limits.")}
    devices = {**RUNNING["devices"], "nic-extra": {"type": "nic", "network": "guests"}}
    found = seen_on_first(engine, tmp_path, {**RUNNING, "config": {**config, **limits}, "devices": devices})
    assert not isinstance(found, DriverError)
    assert [(one.cpu_number, one.memory_mib, one.nic_uuids) for one in found] == [(*sizes, frozenset({NIC.uuid}))]


def test_a_server_that_is_no_cluster_is_a_host(engine: Engine, tmp_path: Path) -> None:
    """What it has is nowhere else: its instances and volumes have no place (``none``); its name's case counts."""
    alone = {"auth": "trusted", "environment": {"server_clustered": False, "server_name": "Alone"}}
    host = replace(ADDRESSES[0], name="alone", url="incus://Alone")
    here = {**RUNNING, "location": "none"}
    replay = Replay(
        [said("/1.0/instances", [here]), said("/1.0", alone), said("/1.0", alone), said(INSTANCE, here)]
    )
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        (guests,) = driver.look_at_hosts([host], timeout_s=PATIENCE_S)
        power = driver.power_of(host, GUEST.uuid, fence=2, timeout_s=PATIENCE_S)
        driver.close()
    assert not isinstance(guests, DriverError)
    assert ([(one.uuid, one.host_uuid) for one in guests], power) == ([(GUEST.uuid, host.uuid)], PowerState.RUNNING)
    assert (replay.unexpected, replay.is_over) == ([], True)


def test_an_instance_that_cannot_be_read_is_named(engine: Engine, tmp_path: Path) -> None:
    """Its root disk was taken away by hand."""
    devices = {name: device for name, device in RUNNING["devices"].items() if name != "root"}
    with pytest.raises(DriverError, match=f"vm-{GUEST.uuid} was changed by hand.*root"):
        seen_on_first(engine, tmp_path, {**RUNNING, "devices": devices})


@pytest.mark.parametrize("code", [400, 401])
def test_a_failed_operation_may_go_well_later(engine: Engine, tmp_path: Path, code: int) -> None:
    """Its code is Incus's own; before, it was Pending and being cancelled, and was waited for."""
    begun, ended = ({"id": "1", "status_code": number, "err": ""} for number in (105, code))
    replay = Replay(
        [
            said(INSTANCE, {**RUNNING, "status": "Stopped"}),
            said(INSTANCE, begun, "PUT"),
            said("/1.0/operations/1/wait", {**begun, "status_code": 104}),
            said("/1.0/operations/1/wait", {**ended, "err": "dataset is busy"}),
        ]
    )
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        with pytest.raises(DriverError, match="dataset is busy") as caught:
            driver.ensure_stopped(ADDRESSES[0], GUEST.uuid, forced=True, fence=2, timeout_s=PATIENCE_S)
        driver.close()
    assert (caught.value.transient, replay.is_over, replay.unexpected) == (True, True, [])


def test_an_operation_is_asked_for_until_it_has_ended(engine: Engine, tmp_path: Path) -> None:
    """Incus answers an error when one wait is over; the operation goes on, and so does the call."""
    begun = {"id": "1", "status_code": 103, "err": ""}
    gated = {**RUNNING["devices"], "gate": {"type": "nic"}}
    config = {**RUNNING["config"], "user.bulkdeploy.fence": "2"}
    over = {"type": "error", "error": "context deadline exceeded", "error_code": 500}
    replay = Replay(
        [
            said(INSTANCE, {**RUNNING, "status": "Stopped"}),
            said(INSTANCE, begun, "PUT"),
            *(
                exchange
                for status in (500, 200, 500)
                for exchange in (
                    {**said("/1.0/operations/1/wait", {}), "status": status, "answer": over},
                    said("/1.0/operations/1", begun),
                )
            ),
            said("/1.0/operations/1/wait", {**begun, "status_code": 200}),
            said(INSTANCE, {**RUNNING, "status": "Stopped", "devices": gated, "config": config}),
        ]
    )
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        driver.ensure_stopped(ADDRESSES[0], GUEST.uuid, forced=True, fence=2, timeout_s=PATIENCE_S)
        driver.close()
    assert (replay.unexpected, replay.is_over) == ([], True)


@pytest.mark.parametrize("is_forgotten", [False, True])
@pytest.mark.parametrize("code", [404, 500])
def test_an_operation_that_fails_while_it_is_waited_for_is_no_success(
    engine: Engine, tmp_path: Path, code: int, is_forgotten: bool
) -> None:
    """Incus has begun to answer the wait with 200 and then sends the operation's error, whatever its code is."""
    begun = {"id": "1", "status_code": 103, "err": ""}
    error = {"type": "error", "error": "Image not provided for instance creation", "error_code": code}
    gone = said("/1.0/operations/1", {}, type="error", error="Operation not found", error_code=404)
    ended = said("/1.0/operations/1", {**begun, "status_code": 400, "err": error["error"]})
    replay = Replay(
        [
            said(INSTANCE, {}, type="error", error="Instance not found", error_code=404),
            said("/1.0", SERVER),
            said("/1.0/instances", begun, "POST"),
            {**said("/1.0/operations/1/wait", {}), "answer": error},
            gone if is_forgotten else ended,
        ]
    )
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        with pytest.raises(DriverError, match="Image not provided") as caught:
            driver.ensure_running(ADDRESSES[0], GUEST, fence=1, timeout_s=PATIENCE_S)
        driver.close()
    assert (caught.value.transient, replay.is_over, replay.unexpected) == (True, True, [])


def test_a_guest_that_ends_while_it_is_stopped_is_stopped(engine: Engine, tmp_path: Path) -> None:
    """Incus refuses to stop what does not run any more; it gets its gate all the same, and is on no host."""
    refused = {"id": "1", "status_code": 400, "err": f'container is not running: "vm-{GUEST.uuid}"'}
    gated = {**RUNNING["devices"], "gate": {"type": "nic"}}
    config = {**RUNNING["config"], "user.bulkdeploy.fence": "2"}
    replay = Replay(
        [
            said(INSTANCE, RUNNING),
            said(f"{INSTANCE}/state", refused, "PUT"),
            said(INSTANCE, {**RUNNING, "status": "Stopped"}),
            said(INSTANCE, {"id": "2", "status_code": 200}, "PUT"),
            said(INSTANCE, {**RUNNING, "status": "Stopped", "devices": gated, "config": config}),
        ]
    )
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        driver._records.fences.claim(GUEST.uuid, ADDRESSES[0].uuid, [], 1)
        driver.ensure_stopped(ADDRESSES[0], GUEST.uuid, forced=True, fence=2, timeout_s=PATIENCE_S)
        driver.close()
    assert (replay.unexpected, replay.is_over) == ([], True)
    assert driver._records.fences.raise_fence(GUEST.uuid, 3).host_uuids == frozenset()


def test_a_guest_that_does_not_stop_in_time_is_stopped_later(engine: Engine, tmp_path: Path) -> None:
    """The time is over before it was first looked at."""
    replay = Replay([said(INSTANCE, RUNNING)])
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        with pytest.raises(DriverError, match="is Running: it did not stop in time") as caught:
            driver.ensure_stopped(ADDRESSES[0], GUEST.uuid, forced=True, fence=2, timeout_s=0)
        driver.close()
    assert (caught.value.transient, replay.unexpected) == (True, [])


def test_a_serial_console_is_carried(engine: Engine, tmp_path: Path) -> None:
    """Bytes go both ways over the websocket of the console's operation, at whichever member serves it."""
    begun = {"id": "7", "metadata": {"fds": {"0": "a secret", "control": "another"}}}
    replay = Replay([said(INSTANCE, RUNNING), said("/1.0", SERVER), said(f"{INSTANCE}/console", begun, "POST")])
    paths: list[str] = []

    def reflect(websocket: ServerConnection) -> None:
        assert websocket.request is not None
        paths.append(websocket.request.path)
        for message in websocket:
            websocket.send(message)
            if message == b"bye":
                websocket.send("")

    with cluster(replay, tmp_path) as url, unix_serve(reflect, str(tmp_path / "second")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        driver = driver_for(engine, urls=[url, f"unix://{tmp_path}/second"])
        with closing(driver.open_serial_console(ADDRESSES[0], GUEST.uuid, timeout_s=PATIENCE_S)) as console:
            console.settimeout(PATIENCE_S)
            for typed in (b"hello", b"bye"):
                console.sendall(typed)
                assert console.recv(100) == typed
            assert console.recv(100) == b""
        with pytest.raises(DriverError, match="does not implement VncConsoles"):
            VncConsoles.of(driver)
        driver.close()
    assert paths == ["/1.0/operations/7/websocket?secret=a+secret"]
    assert replay.is_over


def test_ends_that_incus_tells_of_are_kept(engine: Engine, tmp_path: Path) -> None:
    """Once each, of guests of ours; nothing is asked for, and what else happens is none of an end."""
    others = UUID(int=1), UUID(int=2), UUID(int=3)
    events = [
        ("instance-started", f"vm-{others[0]}"),
        ("instance-stopped", f"web-{others[1]}"),
        ("storage-volume-created", f"vm-{others[2]}"),
        ("instance-shutdown", f"vm-{GUEST.uuid}"),
    ]
    paths: list[str] = []

    def tell(websocket: ServerConnection) -> None:
        assert websocket.request is not None
        paths.append(websocket.request.path)
        for action, name in events:
            event = {"action": action, "source": f"/1.0/instances/{name}?project=vms"}
            websocket.send(json.dumps({"type": "lifecycle", "project": "vms", "metadata": event}))
        for _ in websocket:
            pass

    with unix_serve(tell, str(tmp_path / "socket")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        driver = driver_for(engine, urls=["unix:///nothing/there", f"unix://{tmp_path}/socket"], project="vms")
        assert driver.ended_guests([]) == frozenset()
        ended, until = frozenset[UUID](), time.monotonic() + PATIENCE_S
        while not ended and time.monotonic() < until:
            time.sleep(0.01)
            ended = driver.ended_guests(ADDRESSES)
        assert ended == {GUEST.uuid}
        assert driver.ended_guests(ADDRESSES) == frozenset()
        driver.close()
    assert paths == ["/1.0/events?type=lifecycle&project=vms"]


def test_a_websocket_may_be_quiet(tmp_path: Path) -> None:
    """The time limit for opening it does not limit how long it may be silent."""
    with unix_serve(lambda _: None, str(tmp_path / "socket")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        access = access_of(IncusOptions(urls=(f"unix://{tmp_path}/socket",)))
        with open_events(access, timeout_s=PATIENCE_S) as websocket:
            assert websocket.socket.gettimeout() is None


def test_a_member_without_virtual_machines_is_no_host_for_them(engine: Engine, tmp_path: Path) -> None:
    """Refused when it is added, not at the first VM; what it lacks is named."""
    server = {"auth": "trusted", "environment": {"server_clustered": True, "driver": "lxc"}}
    member = {"status": "Online", "message": "", "url": "https://192.0.2.11:8443"}
    replay = Replay([said("/1.0", server), said("/1.0/cluster/members/member1", member), said("/1.0", server)])
    promise = HostPromise(Decimal(1), Decimal(1), guests_limit=50)
    with cluster(replay, tmp_path) as url:
        driver = driver_for(engine, urls=[url])
        with pytest.raises(DriverError, match=r"cannot run virtual machines \(lxc\): they need QEMU") as refused:
            driver.admit_host(
                NewHost(GUEST.uuid, "KVM", HostAccess("incus://member1"), promise), timeout_s=PATIENCE_S
            )
        driver.close()
    assert (refused.value.transient, replay.is_over) == (False, True)


def test_snapshots_of_volumes_are_no_volumes() -> None:
    """Incus lists them beside their volume, with all its keys."""
    row = {"name": str(DATA.uuid), "type": "custom", "config": {"size": "1MiB", "user.bulkdeploy.pool": str(POOL)}}
    assert read_volume(row, "local") == Volume(DATA.uuid, POOL, "local", 1 << 20)
    assert read_volume({**row, "name": f"{DATA.uuid}/{GUEST.uuid}"}, "local") is None


@pytest.mark.parametrize("network", ["{foo}", "{}", "{label", "{label.x}"])
def test_a_pattern_of_networks_has_known_fields(network: str) -> None:
    """The label and the VLAN; others are refused before a guest needs them."""
    assert read_options("incus", IncusOptions, {"network": "br-{label}{vlan}"}).network == "br-{label}{vlan}"
    with pytest.raises(WrongDriverOptions, match="may contain only the fields"):
        read_options("incus", IncusOptions, {"network": network})


def test_wrong_options_are_refused_by_name() -> None:
    """A url that is none, https without a certificate; the socket of this machine needs no options."""
    assert read_options("incus", IncusOptions, {}).urls == ("unix:///var/lib/incus/unix.socket",)
    for url, problem in (("ftp://member1", "must begin with"), ("https://member1:8443", "certificate and key")):
        with pytest.raises(WrongDriverOptions, match=problem):
            read_options("incus", IncusOptions, {"urls": [url]})


def test_compressed_user_data_reaches_the_guest_as_text() -> None:
    """Incus takes text alone, and cloud-init would decompress it; what only looks compressed is refused."""
    options = IncusOptions.model_validate({"urls": ["unix:///nowhere"]})
    packed = base64.b64encode(gzip.compress(b"#cloud-config\n{}")).decode()
    keys = cloud_init_keys(replace(GUEST, user_data=packed), None, options)
    assert keys["cloud-init.user-data"] == "#cloud-config\n{}"
    for broken in (b"\x1f\x8b\x08", gzip.compress(bytes(2 << 20))):
        with pytest.raises(UnicodeDecodeError):
            cloud_init_keys(replace(GUEST, user_data=base64.b64encode(broken).decode()), None, options)
