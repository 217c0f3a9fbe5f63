"""Reads URLs that users gave (one file: each check depends on the others).

A user's URL may point to this machine, the database's machine, or a cloud's metadata server. ``Fetcher`` resolves
the host's name once, checks every address, connects to a checked address, and does the same for each redirect.
Users see the error texts, so these contain nothing of a server's response; the log has the details.
"""

import base64
import http.client
import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Self
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import url2pathname

import structlog
from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork

from bulkdeploy.domain.urls import redact_url
from bulkdeploy.security.network_addresses import (
    Address,
    UnknownHost,
    addresses_of,
    is_own,
    is_public,
    read_address,
    resolve,
)

log = structlog.get_logger(__name__)

GIB, FILE = 1 << 30, "file"
PORTS = {"http": 80, "https": 443}
"""The allowed schemes of remote files, and their default ports."""

SILENCE_S = 30.0
"""The seconds after which a server that sends nothing has failed."""

TOO_LONG = "the server took too long (fetch.seconds)"
REDIRECTS = (301, 302, 303, 307, 308)


class FetchRules(BaseModel):
    """The rules for fetching files, in the settings table ``[fetch]``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allowed_networks: tuple[IPvAnyNetwork, ...] = Field(
        default=(),
        description="Networks that urls of templates and ISOs may point to although they are not public, such as "
        "10.20.0.0/16. Every user can then read all files there that the workers can read.",
    )
    directories: tuple[Path, ...] = Field(
        default=(),
        description="Directories on the workers from which root admins may register files (file:///path).",
    )
    file_gib: Annotated[float, Field(gt=0)] = Field(
        default=64.0, description="Largest file for a template or an ISO, in GiB."
    )
    disk_gib: Annotated[float, Field(gt=0)] = Field(
        default=1024.0, description="Largest virtual disk size of a template's image, in GiB."
    )
    seconds: Annotated[float, Field(gt=0)] = Field(
        default=3600.0, description="Longest time for fetching one file, in seconds."
    )
    redirects: Annotated[int, Field(ge=0, le=20)] = Field(
        default=5,
        description="Most redirects for one file. Every redirect is checked like the first url.",
    )


class FetchRejected(Exception):
    """The URL or the file is not allowed, so a retry would fail too. Users may see the text."""


class FetchFailed(Exception):
    """The file could not be read; a retry may succeed.

    Users may see the text, because it contains nothing of the server's response.
    """


@dataclass(frozen=True, slots=True)
class _Target:
    """The parts of a URL, and the checked address that is connected to."""

    scheme: str
    host: str
    port: int
    address: str
    path: str
    credentials: str | None


class Fetcher:
    """Reads the files at URLs that users gave.

    Threads may share the object.

    Args:
        rules: the rules.
        own_hosts: names or addresses of the service's own servers, such as its database, which URLs may not point
            to.
    """

    def __init__(self, rules: FetchRules, own_hosts: Sequence[str] = ()) -> None:
        self.rules, self._own_hosts = rules, tuple(own_hosts)

    @contextmanager
    def open(self, url: str) -> Iterator[tuple[IO[bytes], int]]:
        """Open a URL, and yield its content as a stream and its size in bytes.

        Raises:
            FetchRejected: the URL or the file is not allowed.
            FetchFailed: the file could not be read; also raised while the stream is read.
        """
        if url.lower().startswith(f"{FILE}:"):
            with self._open_file(url) as stream:
                size_bytes = os.fstat(stream.fileno()).st_size
                self._check_size(size_bytes)
                yield stream, size_bytes
            return
        with _TimeLimit(self.rules.seconds) as limit, self._request(url, limit) as response:
            size = response.getheader("Content-Length")
            if size is None or not size.isdecimal():
                raise FetchRejected("the server does not send the length of the file (Content-Length)")
            self._check_size(int(size))
            yield _Body(response, int(size), limit), int(size)  # type: ignore[misc]

    def _open_file(self, url: str) -> IO[bytes]:
        path = Path(url2pathname(url.partition("://")[2])).resolve()
        if not any(path.is_relative_to(directory.resolve()) for directory in self.rules.directories):
            raise FetchRejected("the file is in no directory that the setting fetch.directories names")
        try:
            return path.open("rb")
        except OSError as error:
            log.warning("fetch_failed", url=redact_url(url), reason=str(error), status=None)
            raise FetchFailed("the file could not be read") from error

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self.rules.file_gib * GIB:
            rule = f"at most {self.rules.file_gib:g} GiB are allowed (fetch.file_gib)"
            raise FetchRejected(f"the file has {size_bytes} bytes; {rule}")

    @contextmanager
    def _request(self, url: str, limit: "_TimeLimit") -> Iterator[http.client.HTTPResponse]:
        """Yield the response with status 200 for a URL, after all redirects. All connections are closed."""
        first = target = self._target(url, secure=False)
        for _ in range(self.rules.redirects + 1):
            connection = _Pinned(target, limit)
            with closing(connection), self._response(url, connection, target, first) as response:
                if response.status == http.HTTPStatus.OK:
                    yield response
                    return
                location = response.getheader("Location")
                if response.status not in REDIRECTS or location is None:
                    log.warning("fetch_failed", url=redact_url(url), reason=response.reason, status=response.status)
                    raise FetchFailed("the file could not be read from its server")
            url = urljoin(url, location)
            target = self._target(url, secure=target.scheme == "https")
        raise FetchRejected(f"the url leads through more than {self.rules.redirects} redirects (fetch.redirects)")

    def _response(
        self, url: str, connection: "_Pinned", target: _Target, first: _Target
    ) -> http.client.HTTPResponse:
        try:
            response = self._get(connection, target, first)
        except (OSError, http.client.HTTPException) as error:
            connection.limit.check()
            log.warning("fetch_failed", url=redact_url(url), reason=str(error), status=None)
            raise FetchFailed("the file could not be read from its server") from error
        connection.limit.check()  # after a connection was cut off, the headers seem to be complete
        return response

    def _get(
        self, connection: http.client.HTTPConnection, target: _Target, first: _Target
    ) -> http.client.HTTPResponse:
        headers = {"User-Agent": "bulkdeploy", "Accept-Encoding": "identity", "Connection": "close"}
        is_same_place = (target.scheme, target.host, target.port) == (first.scheme, first.host, first.port)
        credentials = target.credentials or (first.credentials if is_same_place else None)
        if credentials is not None:
            headers["Authorization"] = f"Basic {credentials}"
        connection.request("GET", target.path, headers=headers)
        return connection.getresponse()

    def _target(self, url: str, *, secure: bool) -> _Target:
        """Split a URL, and resolve its host name once.

        Raises:
            FetchRejected: the scheme, the host or one of its addresses is not allowed.
            FetchFailed: the host name cannot be resolved.
        """
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        except ValueError as error:
            raise FetchRejected(f"the url must begin with {'://, '.join(PORTS)}:// and name a host") from error
        if scheme not in PORTS or not host:
            raise FetchRejected(f"the url must begin with {'://, '.join(PORTS)}:// and name a host")
        if secure and scheme != "https":
            raise FetchRejected("the url leads from https to a scheme that is not encrypted")
        if not all("!" <= letter <= "~" for letter in parts.path + parts.query + host):
            raise FetchRejected("the url must have no spaces, control characters or letters outside ASCII")
        port = PORTS[scheme] if port is None else port
        address = self._resolve(host, port)
        credentials = None
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            credentials = base64.b64encode(user.encode()).decode()
        path = f"{parts.path or '/'}?{parts.query}".removesuffix("?")
        return _Target(scheme, host, port, address, path, credentials)

    def _resolve(self, host: str, port: int) -> str:
        try:
            found = resolve(host, port)
        except UnknownHost as error:
            raise FetchFailed(str(error)) from error
        for address in found:
            self._check_address(host, address)
        return str(found[0])

    def _check_address(self, host: str, address: Address) -> None:
        if any(address in network for network in self.rules.allowed_networks):
            return
        if not is_public(address):
            raise FetchRejected(
                f"host {host} has an address that is not public (fetch.allowed_networks lists none)"
            )
        if is_own(address) or address in addresses_of(self._own_hosts):
            raise FetchRejected(f"host {host} is one of this service's own")


def check_url(url: str, rules: FetchRules) -> None:
    """Check a remote URL without resolving its host name.

    Raises:
        FetchRejected: the URL has an address that is not public, in any notation, or names this machine.
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError as error:
        raise FetchRejected(f"the url must begin with {'://, '.join(PORTS)}:// and name a host") from error
    name = host.rstrip(".").lower()
    address = read_address(host)
    if name == "localhost" or name.endswith(".localhost"):
        address = ipaddress.IPv4Address("127.0.0.1")
    if address is None or any(address in network for network in rules.allowed_networks):
        return
    if not is_public(address):
        raise FetchRejected(f"host {host} has an address that is not public (fetch.allowed_networks lists none)")


class _TimeLimit:
    """The time limit of one fetch over all its connections, used as a context manager.

    When the time has passed, the open connection is closed. A socket's own timeout restarts with each byte, so a
    slow server could block the caller for days. The time starts when the object is created.
    """

    def __init__(self, seconds: float) -> None:
        self._is_over = False
        self._socket: socket.socket | None = None
        self._ends = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, opened: socket.socket) -> None:
        """Close this socket, instead of an earlier one, when the time has passed.

        Raises:
            FetchFailed: the time has passed already.
        """
        self._socket = opened
        self.check()

    def check(self) -> None:
        """Raise FetchFailed if the time has passed."""
        if self._is_over:
            raise FetchFailed(TOO_LONG)

    def remaining_s(self) -> float:
        """Return the seconds that the next step may take, at most SILENCE_S.

        Raises:
            FetchFailed: no time is left.
        """
        left = min(SILENCE_S, self._ends - time.monotonic())
        if left <= 0:
            raise FetchFailed(TOO_LONG)
        return left

    def _end(self) -> None:
        self._is_over = True  # before the socket is read, because watch sets the socket before it checks this
        if self._socket is not None:
            with suppress(OSError):
                # The shutdown method of a TLS socket would disturb the thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Pinned(http.client.HTTPConnection):
    """A connection to the checked address of a target, within a time limit.

    The host name is not resolved again. TLS verifies the host name.
    """

    def __init__(self, target: _Target, limit: _TimeLimit) -> None:
        super().__init__(target.host, target.port, timeout=SILENCE_S)
        self.limit, self._target = limit, target

    def connect(self) -> None:
        self.sock = socket.create_connection((self._target.address, self.port), self.limit.remaining_s())
        self.limit.watch(self.sock)
        self.sock.settimeout(SILENCE_S)
        if self._target.scheme == "https":
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.limit.watch(self.sock)
            self.sock.do_handshake()


class _Body:
    """The body of a response. Reading raises FetchFailed if the body is shorter than its declared size."""

    def __init__(self, response: http.client.HTTPResponse, size: int, limit: _TimeLimit) -> None:
        self._response, self._left, self._limit = response, size, limit

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, or fewer if fewer arrived; no bytes at the end.

        Raises:
            FetchFailed: the connection broke, the time has passed, or the body is too short.
        """
        if not self._left:
            return b""
        try:
            chunk = self._response.read1(min(size, self._left))
        except (OSError, http.client.HTTPException) as error:
            self._limit.check()
            raise FetchFailed(
                "the connection to the server broke, or the server sent nothing for too long"
            ) from error
        self._limit.check()
        if not chunk:
            raise FetchFailed("the server sent less than it had announced")
        self._left -= len(chunk)
        return chunk
