"""Signed calls over kept-alive connections: one by one, and as fast as many clients can."""

import http.client
import itertools
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit

from benchmarks.ground import BenchmarkZone
from bulkdeploy.security.signature import sign
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import build_cipher

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Answered:
    """How long a call took (until its last byte, in ms), and what it answered."""

    ms: float
    body: bytes


@dataclass
class Client:
    """One client with the admin's keys and one connection."""

    url: str
    api_key: str
    secret_key: str
    link: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        """Connect on first use."""
        self.link = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=120)

    def query(self, command: str, **parameters: object) -> str:
        """The signed parameters of a call, as they are sent."""
        values = {name: str(value) for name, value in parameters.items()}
        values = {"response": "json", **values, "command": command, "apiKey": self.api_key}
        return urlencode({**values, "signature": sign(values, self.secret_key)}, quote_via=quote)

    def call(self, command: str, **parameters: object) -> Answered:
        """A POST and its answer.

        Raises:
            AssertionError: it was refused.
        """
        form = self.query(command, **parameters)
        began = time.perf_counter()
        self.link.request("POST", "/client/api", form, FORM)
        answer = self.link.getresponse()
        body = answer.read()
        took = (time.perf_counter() - began) * 1000
        assert answer.status == 200, body[:500]
        return Answered(took, body)


def admin_client(bench: BenchmarkZone, url: str) -> Client:
    """A client with the admin's keys."""
    with bench.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    return Client(url, admin.api_key, build_cipher(bench.settings).decrypt(admin.secret_key_encrypted))


@dataclass(frozen=True)
class Load:
    """What a crowd of clients got: how long each answer took (ms), in so many seconds."""

    waits: Sequence[float]
    seconds: float

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.waits) / self.seconds


def crowd(url: str, targets: Iterable[str], clients: int, going_on: Callable[[float], bool]) -> Load:
    """Let ``clients`` kept-alive connections GET the targets in turn, each at once after its answer.

    A list is gone through again and again; anything else has enough of them.

    One thread and an event loop: the clients must cost less than the server that is measured.
    """
    host, port = urlsplit(url).hostname, urlsplit(url).port
    again = itertools.cycle(targets) if isinstance(targets, Sequence) else targets
    turn = (f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for target in again)
    waits: list[float] = []
    with selectors.DefaultSelector() as selector:
        links = [_Link(socket.create_connection((host, port))) for _ in range(clients)]
        began = time.perf_counter()
        for link in links:
            link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(link.socket, selectors.EVENT_READ, link)
            link.send(next(turn))
        while going_on(time.perf_counter() - began):
            for key, _ in selector.select(timeout=0.1):
                link = key.data
                if link.receive():
                    waits.append(1000 * (time.perf_counter() - link.sent))
                    link.send(next(turn))
        took = time.perf_counter() - began
        for link in links:
            while not link.receive():  # what is under way must not burden what is measured next
                pass
            link.socket.close()
    return Load(waits, took)


class _Link:
    """One connection and the answer that is arriving on it."""

    def __init__(self, link: socket.socket) -> None:
        self.socket, self._data, self.sent = link, b"", 0.0

    def send(self, request: bytes) -> None:
        """Ask, and note when."""
        self.sent = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Take what has come; True once the answer is whole.

        Raises:
            AssertionError: it is no success, or the server hung up.
        """
        part = self.socket.recv(65536)
        assert part, "the server hung up"
        self._data += part
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return False
        at = head.lower().index(b"content-length:") + len(b"content-length:")
        if len(body) < int(head[at:].split(b"\r\n", 1)[0]):
            return False
        assert head.startswith(b"HTTP/1.1 200"), self._data[:500]
        self._data = b""
        return True
