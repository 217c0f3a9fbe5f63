"""A URL of a caller leads to no address that is not public, whatever it is spelled like and redirects to."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest

from bulkdeploy.security.guarded_fetch import Fetcher, FetchFailed, FetchRejected, FetchRules, check_url
from bulkdeploy.security.network_addresses import is_own, is_public
from bulkdeploy.wiring.settings import Settings
from tests.support.runs.waiting import wait_for

CONTENT = b"internal secret " * 4096
LOOPBACK = FetchRules.model_validate({"allowed_networks": ["127.0.0.0/8"]})
NOT_PUBLIC = (
    "127.0.0.1", "127.1", "127.255.255.254", "0", "0.0", "0x7f.1", "0177.0.0.1", "2130706433", "0x7f000001",
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:8.8.8.8]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b::808:808]", "[64:ff9b:1::1]", "[2002:7f00:1::1]", "[2002:808:808::1]", "[2001:0:1::1]", "[fe80::1]",
    "[fec0::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]", "[2001:db8::1]", "10.0.0.1", "172.16.0.1",
    "172.31.255.254", "192.168.1.1", "169.254.169.254", "2852039166", "100.64.0.1", "192.0.0.1", "192.0.2.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255",
)  # fmt: skip
"""Addresses of this machine, of private networks, of links, of groups, of documentation, and those that stand for
others; in every spelling that connections accept."""


@dataclass
class Web:
    """A server on loopback; ``redirects`` are locations by path, ``requests`` the headers that came."""

    port: int = 0
    redirects: dict[str, str] = field(default_factory=dict)
    requests: list[dict[str, str]] = field(default_factory=list)

    def url(self, path: str = "/image", host: str = "127.0.0.1") -> str:
        """A URL of the server."""
        return f"http://{host}:{self.port}{path}"


@contextmanager
def web() -> Iterator[Web]:
    """Serve CONTENT, redirects, and answers that are wrong in one way each."""
    made = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.requests.append({"path": self.path, **self.headers})
            path = self.path.partition("?")[0]
            if path in made.redirects:
                self.send_response(302)
                self.send_header("Location", made.redirects[path])
            elif path == "/secret-status":
                self.send_response(401, "Unauthorized by the vault")
            else:
                self.send_response(200)
                if path != "/endless":
                    claimed = {"/short": len(CONTENT) + 1, "/huge": 1 << 50}.get(path, len(CONTENT))
                    self.send_header("Content-Length", str(claimed))
            self.end_headers()
            if path not in made.redirects:
                self.wfile.write(CONTENT)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Web]:
    """A server on loopback."""
    with web() as made:
        yield made


def read(fetcher: Fetcher, url: str) -> bytes:
    """All that a URL leads to."""
    with fetcher.open(url) as (stream, size):
        content = b""
        while chunk := stream.read(1000):
            content += chunk
        assert len(content) == size
        return content


@pytest.mark.parametrize("host", [*NOT_PUBLIC, "localhost", "LOCALHOST", "localhost."])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_addresses_that_are_not_public_are_rejected(server: Web, scheme: str, host: str) -> None:
    """Before anything is sent; where the text alone says so also when the URL is registered."""
    url = f"{scheme}://{host}:{server.port}/image"
    with pytest.raises((FetchRejected, FetchFailed) if host.endswith(".") else FetchRejected):
        read(Fetcher(FetchRules()), url)
    with pytest.raises(FetchRejected):
        check_url(url, FetchRules())
    assert server.requests == []


@pytest.mark.parametrize(
    "scheme", ["ftp", "gopher", "dict", "ldap", "sftp", "tftp", "nfs", "smb", "data", "", "HTTP+x"]
)
def test_other_schemes_are_rejected(server: Web, scheme: str) -> None:
    """Also where the address is allowed."""
    with pytest.raises(FetchRejected, match="http"):
        read(Fetcher(LOOPBACK), f"{scheme}://127.0.0.1:{server.port}/image")
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:99999/", "http://[::1", "http:///image", "http://127.0.0.1:port/", "http://a b/",
     "http://127.0.0.1/\r\nHost: x", "http://127.0.0.1/a b", "http://127.0.0.1/\u2028", "http://" + "a" * 300 + "/",
     "http://.../", "http://%31%32%37.1/"],
)  # fmt: skip
def test_urls_that_are_not_valid_fail(url: str) -> None:
    """With an error of ours, whatever the text is."""
    with pytest.raises((FetchRejected, FetchFailed)):
        read(Fetcher(FetchRules()), url)


def test_a_network_that_the_setting_lists_is_reached(server: Web) -> None:
    """And no other one."""
    assert read(Fetcher(LOOPBACK), server.url()) == CONTENT
    check_url(server.url(), LOOPBACK)
    with pytest.raises(FetchRejected):
        read(Fetcher(LOOPBACK), "http://10.0.0.1/")


@pytest.mark.parametrize(
    "location", ["http://{other}/x", "//{other}/x", "https://{other}/x", "ftp://{other}/x", "file:///etc/passwd"]
)
@pytest.mark.parametrize("other", ["127.0.0.2", "[::1]", "169.254.169.254", "0", "localhost", "10.0.0.1"])
def test_each_redirect_is_checked_as_the_url_is(server: Web, location: str, other: str) -> None:
    """The first server is allowed, the one that it names is not."""
    server.redirects["/image"] = location.format(other=f"{other}:{server.port}")
    rules = FetchRules.model_validate({"allowed_networks": ["127.0.0.1/32"]})
    if other == "localhost" and location.startswith(("http:", "//")):
        server.redirects["/x"] = "http://10.0.0.1/"
    with pytest.raises((FetchRejected, FetchFailed)):
        read(Fetcher(rules), server.url())
    assert {request["Host"].partition(":")[0] for request in server.requests} <= {"127.0.0.1", "localhost"}


def test_redirects_are_followed_so_far(server: Web) -> None:
    """As many as the setting says, relative ones too; a circle ends."""
    server.redirects.update({"/a": "/b", "/b": server.url("/image"), "/round": "/round"})
    assert read(Fetcher(LOOPBACK), server.url("/a")) == CONTENT
    with pytest.raises(FetchRejected, match="redirects"):
        read(Fetcher(LOOPBACK.model_copy(update={"redirects": 1})), server.url("/a"))
    with pytest.raises(FetchRejected, match="redirects"):
        read(Fetcher(LOOPBACK), server.url("/round"))


def test_a_name_is_resolved_once_and_the_connection_goes_to_that_address(
    server: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers differently the second time changes nothing."""
    resolved: list[str] = []

    def rebinding(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        resolved.append(host)
        address = "127.0.0.1" if len(resolved) == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    real = socket.create_connection
    connected: list[tuple[str, int]] = []

    def watched(address: tuple[str, int], *rest: object) -> socket.socket:
        connected.append(address)
        with monkeypatch.context() as unpatched:
            unpatched.setattr(socket, "getaddrinfo", GETADDRINFO)
            return real(address, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    monkeypatch.setattr(socket, "create_connection", watched)
    rules = FetchRules.model_validate({"allowed_networks": ["127.0.0.1/32"]})
    assert read(Fetcher(rules), server.url(host="images.example")) == CONTENT
    assert (resolved, connected) == (["images.example"], [("127.0.0.1", server.port)])


GETADDRINFO = socket.getaddrinfo


def test_every_address_of_a_name_must_be_allowed(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a public and a private address is rejected: the order of answers is a name server's choice."""

    def both(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        del host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with pytest.raises(FetchRejected, match="not public"):
        read(Fetcher(FetchRules()), server.url(host="images.example"))


def test_the_machines_own_addresses_are_its_own() -> None:
    """Whatever network they are of; those of others are not."""
    assert is_own(ip_address("127.0.0.1"))
    assert not is_own(ip_address("203.0.113.9"))
    assert is_public(ip_address("8.8.8.8"))
    assert is_public(ip_address("2606:4700::1111"))


def test_the_services_own_servers_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's, the broker's and the receiver's of traces, by the settings, although they are public."""
    settings = Settings(
        database_url="postgresql://u:p@8.8.4.4:5432,8.8.4.5/db", redis_url="redis://:secret@8.8.4.6:6379/0"
    )
    assert settings.server_hosts == ("8.8.4.4", "8.8.4.5", "8.8.4.6")
    connected: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *given: connected.append(given))
    for host in settings.server_hosts:
        with pytest.raises(FetchRejected, match="own"):
            read(Fetcher(FetchRules(), settings.server_hosts), f"http://{host}/")
    assert connected == []


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/short", FetchFailed),
        ("/huge", FetchRejected),
        ("/endless", FetchRejected),
        ("/secret-status", FetchFailed),
    ],
)
def test_sizes_are_bounded_and_files_are_whole(server: Web, path: str, error: type[Exception]) -> None:
    """A file that is larger than the setting, of unknown size, or cut off is none."""
    with pytest.raises(error):
        read(Fetcher(LOOPBACK), server.url(path))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Endless: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n",
    ],
    ids=["nothing", "endless headers", "a slow body", "a slow body before the end"],
)
def test_a_server_that_takes_too_long_is_given_up(sent: bytes) -> None:
    """One that sends nothing, or one byte of its headers after the other: without an end, no read takes long."""
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(sent)
            while not over.wait(0.01):
                connection.sendall(b"x" if sent else b"")

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        dripping = pool.submit(drip, listening)
        try:
            with pytest.raises(FetchFailed):
                read(
                    Fetcher(LOOPBACK.model_copy(update={"seconds": 0.5})),
                    f"http://127.0.0.1:{listening.getsockname()[1]}/",
                )
        finally:
            over.set()
        dripping.result()


@pytest.mark.parametrize("drips", [True, False], ids=["byte by byte", "late"])
def test_a_handshake_that_takes_too_long_is_given_up_and_its_connection_closed(drips: bool) -> None:
    """Whether its bytes come one by one for ever, or all of them after the time is over."""
    record = b"\x16\x03\x03\x40\x00" + b"\x02\x00\x3f\xfc" + b"x" * 16000
    closed = threading.Event()

    def shake(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.settimeout(30)
        with connection, suppress(OSError):
            time.sleep(0 if drips else 1)
            for at in range(0, len(record), 1 if drips else len(record)):
                connection.sendall(record[at : at + 1] if drips else record)
                time.sleep(0.01)
            while connection.recv(65536):
                pass
        closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        shaking = pool.submit(shake, listening)
        rules = LOOPBACK.model_copy(update={"seconds": 0.5})
        with pytest.raises(FetchFailed, match="too long"):
            read(Fetcher(rules), f"https://127.0.0.1:{listening.getsockname()[1]}/")
        assert closed.wait(25)
        shaking.result()


def test_the_time_holds_over_redirects_and_no_connection_stays_open(server: Web) -> None:
    """However a fetch ends: the server sees the end of every connection that it accepted."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    server.redirects["/round"] = "/round"
    for path in ("/round", "/secret-status", "/short", "/huge", "/endless", "/image"):
        with suppress(FetchRejected, FetchFailed):
            read(Fetcher(LOOPBACK.model_copy(update={"redirects": 20})), server.url(path))
    wait_for(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)


@pytest.mark.parametrize("place", ["/secret-status", "/short", "/huge", "/endless"])
def test_errors_do_not_tell_what_a_server_answered_nor_credentials(
    server: Web, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the status nor the text; nor is a closed port shown from a server that refuses."""
    url = f"http://bob:s3cr3t@127.0.0.1:{server.port}{place}?token=t0k3n"
    with pytest.raises((FetchRejected, FetchFailed)) as failed:
        read(Fetcher(LOOPBACK), url)
    shown = str(failed.value) + capsys.readouterr().out
    assert not {word for word in ("s3cr3t", "t0k3n", "Unauthorized", "vault") if word in str(failed.value)}
    assert not {word for word in ("s3cr3t", "t0k3n") if word in shown}
    assert "401" not in str(failed.value)


def test_a_closed_port_is_not_shown_from_a_server_that_refuses(server: Web) -> None:
    """Nobody maps a network by the texts of errors."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    texts = set()
    for url in (f"http://127.0.0.1:{port}/", server.url("/secret-status")):
        with pytest.raises(FetchFailed) as failed:
            read(Fetcher(LOOPBACK), url)
        texts.add(str(failed.value))
    assert len(texts) == 1


def test_credentials_go_to_the_server_that_they_were_given_for(server: Web) -> None:
    """Not to another one that it redirects to."""
    with web() as other:
        server.redirects["/image"] = other.url()
        assert read(Fetcher(LOOPBACK), f"http://bob:s3cr3t@127.0.0.1:{server.port}/image") == CONTENT
        assert server.requests[0]["Authorization"].startswith("Basic ")
        assert "Authorization" not in other.requests[0]


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A directory that is allowed, beside a secret that is not."""
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "image").write_bytes(CONTENT)
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "shelf" / "link").symlink_to(tmp_path / "secret")
    return tmp_path / "shelf"


Place = Callable[[Path], str]
OUTSIDE: dict[str, Place] = {
    "beside it": lambda shelf: (shelf.parent / "secret").as_uri(),
    "by its parent": lambda shelf: f"file://{shelf}/../secret",
    "by an encoded parent": lambda shelf: f"file://{shelf}/%2e%2e/secret",
    "by a link": lambda shelf: (shelf / "link").as_uri(),
    "a file of the system": lambda _: "file:///etc/passwd",
    "a device": lambda _: "file:///dev/zero",
}


@pytest.mark.parametrize("place", OUTSIDE.values(), ids=OUTSIDE)
def test_files_of_the_workers_are_read_from_named_directories_only(shelf: Path, place: Place) -> None:
    """By default from none."""
    rules = FetchRules(directories=(shelf,))
    assert read(Fetcher(rules), (shelf / "image").as_uri()) == CONTENT
    for allowed in (rules, FetchRules()):
        with pytest.raises(FetchRejected, match="in no directory"):
            read(Fetcher(allowed), place(shelf))
    with pytest.raises(FetchRejected):
        read(Fetcher(FetchRules()), (shelf / "image").as_uri())
