"""Consoles over websockets: who gets in, how often, and what is carried; hypervisors' part is a mirror here."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from bulkdeploy.api.guest_console import BUSY, MOST_CONSOLES_OF_A_USER
from bulkdeploy.drivers.abilities.consoles import SerialConsoles, VncConsoles
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_process import api_process
from tests.support.api.callers import refused
from tests.support.hypervisors.drivers import always
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import USER, World, open_world

REFUSED = 1008


class Mirror(VncConsoles, SerialConsoles, SimulatorDriver):
    """Hypervisors whose guests show what is typed."""

    def __init__(self) -> None:
        self.silent = False

    def open_vnc_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        """Return a socket that repeats what is sent."""
        del timeout_s
        if self.silent:
            raise DriverError("console", host.name, f"nothing shows {guest_uuid}", transient=False)
        mine, given = socket.socketpair()

        def reflect() -> None:
            with mine:
                while data := mine.recv(4096):
                    mine.sendall(data)

        threading.Thread(target=reflect, daemon=True).start()
        return given

    open_serial_console = open_vnc_console


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """Accounts and places, and VMs that run as far as rows say."""
    with open_world(request, populated_database) as made:
        yield made


@pytest.fixture(scope="module")
def mirror() -> Mirror:
    """What stands for hypervisors."""
    return Mirror()


@pytest.fixture(scope="module")
def url(world: World, mirror: Mirror, request: pytest.FixtureRequest) -> Iterator[str]:
    """An API whose guests have consoles."""
    folder = request.getfixturevalue("tmp_path_factory").mktemp("data")
    redis_url = request.getfixturevalue("redis_url")
    settings = Settings(database_url=str(world.engine.url), redis_url=redis_url, data_dir=folder)
    system = System(world.engine, build_job_queue(settings), world.cipher, folder, always(mirror))
    with api_process(system, settings) as found:
        yield found


@pytest.fixture(scope="module")
def vm(world: World) -> str:
    """A VM of acme that runs on a host."""
    return deployed_vm(world, "seen")


class Viewer:
    """Somebody with keys, at this API."""

    def __init__(self, world: World, url: str, vm: str) -> None:
        self.client, self.url, self.vm = replace(world.client(USER), url=url), url, vm

    def token(self, **parameters: str) -> str:
        """A new token for a console."""
        given = {"consoletype": "serial", **parameters}
        found = self.client.call("createConsoleEndpoint", virtualmachineid=self.vm, **given)["consoleendpoint"]
        return str(found["websocket"]["token"])

    def open(self, token: str, path: str = "/client/console", **more: str) -> ClientConnection:
        """Whatever it opens."""
        query = urlencode({"token": token, **more})
        return connect(f"{self.url.replace('http', 'ws')}{path}?{query}", compression=None)

    def rejection(self, token: str, **more: str) -> str:
        """Return why a connection does not become a websocket."""
        with pytest.raises(InvalidStatus) as rejected:
            self.open(token, **more)
        assert rejected.value.response.status_code == 403
        return rejected.value.response.body.decode()

    def reason(self, token: str, **more: str) -> str:
        """Why nothing is opened."""
        with self.open(token, **more) as opened, pytest.raises(ConnectionClosed) as closed:
            opened.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == REFUSED
        return closed.value.rcvd.reason


@pytest.fixture
def viewer(world: World, url: str, vm: str) -> Viewer:
    """A user of acme."""
    return Viewer(world, url, vm)


def test_what_is_typed_comes_back(viewer: Viewer) -> None:
    """Every byte, in order, in messages of any size, both ways."""
    sent = bytes(range(256)) * 1000
    with viewer.open(viewer.token()) as opened:
        for start in range(0, len(sent), 10_000):
            opened.send(sent[start : start + 10_000])
        received = b""
        while len(received) < len(sent):
            part = opened.recv()
            assert isinstance(part, bytes)
            received += part
        assert received == sent
        opened.send("text, too")
        assert opened.recv() == b"text, too"


def test_a_screen_greets_as_a_server_without_password(viewer: Viewer) -> None:
    """RFC 6143, 7.1: version, security type None, and what the client says next is the guest's to answer."""
    with viewer.open(viewer.token(consoletype="vnc")) as opened:
        assert opened.recv() == b"RFB 003.008\n"
        opened.send(b"RFB 003.008\n")
        assert opened.recv() == b"\x01\x01"
        opened.send(b"\x01shared")
        assert opened.recv() == bytes(4)
        assert opened.recv() == b"shared"
    with viewer.open(viewer.token(consoletype="vnc")) as opened:
        opened.recv()
        opened.send(b"RFB 003.003\n")
        with pytest.raises(ConnectionClosed, match=r"3\.8"):
            opened.recv()


def test_a_token_opens_one_console_once(viewer: Viewer, world: World) -> None:
    """Used, unknown, too old, or of somebody who was disabled since: nothing is opened."""
    token = viewer.token()
    with viewer.open(token):
        pass
    assert "used or older than a minute" in viewer.rejection(token)
    assert "unknown" in viewer.rejection("x")
    assert "unknown" in viewer.rejection("")
    late = viewer.token()
    world.change("UPDATE console_tokens SET expires = now() - interval '1 second'")
    assert "unknown" in viewer.rejection(late)
    for table, name in (("users", "username"), ("accounts", "name")):
        disabled = viewer.token()
        world.change(f"UPDATE {table} SET state = 'disabled' WHERE {name} = :name", name=USER)
        try:
            assert "unknown" in viewer.rejection(disabled)
        finally:
            world.change(f"UPDATE {table} SET state = 'enabled' WHERE {name} = :name", name=USER)


def test_an_extra_token_is_needed_as_well(viewer: Viewer) -> None:
    """Who has only one of the two gets nothing; and the one is used up then."""
    token = viewer.token(token="between us")
    assert "unknown" in viewer.rejection(token)
    with viewer.open(token, extra="between us") as opened:
        opened.send(b"?")
        assert opened.recv() == b"?"


def test_tokens_are_no_secrets_of_the_database(viewer: Viewer, world: World) -> None:
    """Whoever reads the table can open nothing."""
    token = viewer.token()
    with world.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT t::text FROM console_tokens t").scalars().all()
    assert rows
    assert not [row for row in rows if token in row or token.encode().hex() in row]


def test_why_a_console_is_not_there_is_said(viewer: Viewer, mirror: Mirror, world: World) -> None:
    """In the hypervisor's words; or that the VM stopped since."""
    mirror.silent = True
    try:
        assert f"nothing shows {viewer.vm}" in viewer.reason(viewer.token())
    finally:
        mirror.silent = False
    token = viewer.token()
    world.change("UPDATE virtual_machines SET state = 'Stopping' WHERE name = 'seen'")
    try:
        assert "does not run any more" in viewer.reason(token)
        error = refused(viewer.client, "createConsoleEndpoint", virtualmachineid=viewer.vm)
        assert (error.status, error.cserrorcode) == (431, 4350)
        assert "only a running virtual machine has a console; its state is Stopping" in error.errortext
    finally:
        world.change("UPDATE virtual_machines SET state = 'Running' WHERE name = 'seen'")


def test_the_endpoint_is_where_the_caller_found_the_api(viewer: Viewer) -> None:
    """Host and port as the call named them; a page for screens, and none for serial consoles."""
    endpoint = viewer.client.call("createConsoleEndpoint", virtualmachineid=viewer.vm)["consoleendpoint"]
    there, found = urlsplit(viewer.url), endpoint["websocket"]
    assert (found["host"], found["port"], found["path"]) == (there.hostname, str(there.port), "client/console")
    assert endpoint["success"] is True
    assert endpoint["url"] == f"{viewer.url}/console/vnc#token={found['token']}"
    serial = viewer.client.call("createConsoleEndpoint", virtualmachineid=viewer.vm, consoletype="serial")
    assert "url" not in serial["consoleendpoint"]


def test_others_get_no_token(viewer: Viewer, world: World, url: str) -> None:
    """Nor does anybody where hypervisors have no consoles, which is said."""
    rival = replace(world.client("rival"), url=url)
    assert refused(rival, "createConsoleEndpoint", virtualmachineid=viewer.vm).status in (431, 531)
    error = refused(world.client(USER), "createConsoleEndpoint", virtualmachineid=viewer.vm)
    assert (error.status, error.cserrorcode) == (431, 4350)
    assert "does not support VNC console (driver 'simulator' does not provide it)" in error.errortext


@pytest.mark.parametrize("path", ["/client/api", "/console/vnc", "/"])
def test_only_consoles_are_websockets(viewer: Viewer, path: str) -> None:
    """Elsewhere the wish to speak another protocol is not heeded."""
    with pytest.raises(InvalidStatus):
        viewer.open("x", path)


def test_strangers_occupy_no_places_of_calls(viewer: Viewer, url: str) -> None:
    """While one address holds hundreds of connections that ask for consoles without a token, calls are answered."""
    there = urlsplit(url)
    upgrade = (
        b"GET /client/console?token=x HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    held: list[socket.socket] = []
    try:
        for _ in range(280):
            held.append(socket.create_connection((there.hostname or "", there.port or 0)))
            held[-1].sendall(upgrade)
        assert [viewer.client.get("listZones").status for _ in range(20)] == [200] * 20
        answers = {stranger.recv(64)[:12] for stranger in held}
        # On a busy machine the oldest of those that still wait are closed without an answer.
        assert b"HTTP/1.1 403" in answers <= {b"HTTP/1.1 403", b""}
        assert viewer.client.get("listZones").status == 200
    finally:
        for stranger in held:
            stranger.close()


@pytest.mark.parametrize(("table", "column"), [("users", "username"), ("accounts", "name")])
def test_an_open_console_ends_when_its_user_may_not_see_it(
    viewer: Viewer, world: World, table: str, column: str
) -> None:
    """After the user or its account was disabled, an open console of the user is closed; others stay open."""
    with viewer.open(viewer.token()) as opened:
        opened.send(b"?")
        assert opened.recv() == b"?"
        world.change(f"UPDATE {table} SET state = 'disabled' WHERE {column} = :name", name=USER)
        try:
            with pytest.raises(ConnectionClosed) as closed:
                opened.recv(timeout=PATIENCE_S)
        finally:
            world.change(f"UPDATE {table} SET state = 'enabled' WHERE {column} = :name", name=USER)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, "may not see" in closed.value.rcvd.reason) == (REFUSED, True)
    with viewer.open(viewer.token()) as opened:
        opened.send(b"!")
        assert opened.recv() == b"!"


def test_consoles_of_one_user_are_bounded(viewer: Viewer) -> None:
    """A user that has many consoles open in a process gets no more there, and calls are answered."""
    with ExitStack() as opened:
        for _ in range(MOST_CONSOLES_OF_A_USER):
            opened.enter_context(viewer.open(viewer.token()))
        with viewer.open(viewer.token()) as one_more, pytest.raises(ConnectionClosed) as closed:
            one_more.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == BUSY
        assert viewer.client.get("listZones").status == 200
