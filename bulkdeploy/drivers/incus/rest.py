"""Incus's REST API: requests to whichever member answers, and operations until they have ended.

Source: Incus's doc/rest-api.md and doc/rest-api.yaml, version 6.0.
"""

import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.pinning import CONNECTIONS, PinnedAdapter

CONNECT_S = 10.0
WAIT_S = 30
"""How long one request waits for an operation; then it is asked for again."""

NOT_FOUND, CHANGED, SILENT = 404, 412, (429, 502, 503, 504)
UNDER_WAY = (103, 104, 105)
"""Status codes of an operation that has not ended: Running, Cancelling, Pending."""

NOT_READY = ("no available cowsql leader", "context deadline exceeded", "driver: bad connection", "not leader")
"""Texts of errors 500 that say that the cluster's database has no leader now."""

MOST_TEXT = 500
"""Characters of what Incus said that operators are shown."""


class Refused(Exception):
    """Incus said no.

    Attributes:
        code: HTTP's number, as Incus gave it.
        text: what Incus said.
    """

    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(text)


class OperationFailed(Refused):
    """An operation that was begun has failed, or was cancelled; its code (400, 401) is not HTTP's."""


class NotAnswered(Exception):
    """No member gave an answer; what was asked for may have been done all the same."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the cluster.

    Attributes:
        urls: of every member; ``unix://PATH`` for a socket of this machine.
        client: files of the client's certificate and key.
        ca_file: certificates of the authorities that signed the members'; None: the system's.
        fingerprint: SHA-256 of the cluster's certificate, which then needs no authority.
        project: Incus's project that requests are for.
    """

    urls: tuple[str, ...]
    client: tuple[str, str] | None = None
    ca_file: str | None = None
    fingerprint: str | None = None
    project: str = "default"


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered: the value, and the tag that ``if_match`` compares."""

    value: Any
    etag: str | None


class _SocketConnection(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CONNECT_S)
        self._path = path

    def _new_conn(self) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(CONNECT_S)
        try:
            connected.connect(self._path)
        except OSError:
            connected.close()
            raise
        return connected


class _SocketPool(HTTPConnectionPool):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", maxsize=CONNECTIONS)
        self._path = path

    def _new_conn(self) -> _SocketConnection:
        self.num_connections += 1
        return _SocketConnection(self._path)


class _SocketAdapter(HTTPAdapter):
    """Requests over a socket in the file system, at an URL that stands for it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._pool = _SocketPool(path)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        """See HTTPAdapter."""
        return self._pool

    def close(self) -> None:
        """See HTTPAdapter."""
        self._pool.close()


class Incus:
    """A client of one cluster; safe to share between threads."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy of the environment is none of the cluster's
        self._session.cert = access.client
        self._session.verify = False if access.fingerprint else access.ca_file or True
        self._session.mount("https://", PinnedAdapter(access.fingerprint))
        self._urls = []
        for number, url in enumerate(access.urls):
            parts = urlsplit(url)
            if parts.scheme == "unix":
                url = f"http://socket{number}"  # noqa: PLW2901 - a name that the adapter stands for
                self._session.mount(url, _SocketAdapter(parts.path))
            self._urls.append(url.rstrip("/"))

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout_s: float,
        if_match: str | None = None,
        **query: str | int | None,
    ) -> Answer:
        """One request, to the first member that answers.

        Args:
            method: HTTP's.
            path: of the resource.
            body: what is sent: JSON, or an iterable of chunks of a file, which one member is asked to take.
            timeout_s: for all of it.
            if_match: the tag of what is to be changed: it is changed only if it still has this one.
            query: parameters; None is left out.

        Raises:
            NotAnswered: no answer, or not in time.
            Refused: see there.
        """
        reasons = []
        end = time.monotonic() + timeout_s
        headers = {} if if_match is None else {"If-Match": if_match}
        is_file = body is not None and not isinstance(body, dict)
        if is_file:
            headers["Content-Type"] = "application/octet-stream"
        content: dict[str, Any] = {"data": body} if is_file else {"json": body}
        parameters = {
            "project": self.access.project,
            **{key: value for key, value in query.items() if value is not None},
        }
        for url in self._urls[:1] if is_file else list(self._urls):
            left = max(end - time.monotonic(), 0.1)
            try:
                answer = self._session.request(
                    method,
                    f"{url}{path}",
                    params=parameters,
                    headers=headers,
                    timeout=(min(left, CONNECT_S), left),
                    **content,
                )
            except (requests.RequestException, OSError) as error:
                reasons.append(f"{url}: {error}")
                continue
            if answer.status_code in SILENT or (answer.status_code == 500 and _says(answer, NOT_READY)):
                reasons.append(f"{url}: {answer.status_code} {answer.text[:200]}")
                continue
            self._prefer(url)
            return _read(answer)
        raise NotAnswered("; ".join(reasons))

    def run(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout_s: float,
        if_match: str | None = None,
        **query: str | int | None,
    ) -> dict[str, Any]:
        """Begin an operation and wait for its end; what it left, empty if that is not known.

        Raises:
            NotAnswered: no answer, or the operation has not ended in time; it may go on.
            OperationFailed: it has ended without success.
            Refused: see there.
        """
        end = time.monotonic() + timeout_s
        begun = self.send(method, path, body, timeout_s=timeout_s, if_match=if_match, **query).value
        while begun.get("status_code") in UNDER_WAY:
            left = end - time.monotonic()
            if left <= 0:
                raise NotAnswered(f"operation {begun['id']} has not ended in {timeout_s:.0f} s")
            where = path_of("operations", begun["id"], "wait")
            try:
                begun = self.send("GET", where, timeout_s=left, timeout=max(1, min(WAIT_S, int(left)))).value
            except Refused as error:
                if error.code == NOT_FOUND and "not found" in error.text.lower():
                    return {}  # it has ended and is forgotten, or its member has died: who asked looks
                raise
        if begun.get("err"):
            raise OperationFailed(int(begun["status_code"]), str(begun["err"]))
        return dict(begun.get("metadata") or {})

    def close(self) -> None:
        """Give back connections."""
        self._session.close()

    def _prefer(self, url: str) -> None:
        if self._urls[0] != url:
            self._urls = [url, *(other for other in self._urls if other != url)]


def _read(answer: requests.Response) -> Answer:
    try:
        found = answer.json()
    except ValueError:
        raise Refused(answer.status_code, answer.text) from None
    if found.get("type") == "error":
        raise Refused(int(found.get("error_code") or answer.status_code), str(found.get("error")))
    return Answer(found.get("metadata") or {}, answer.headers.get("ETag"))


def _says(answer: requests.Response, texts: Iterable[str]) -> bool:
    return any(text in answer.text for text in texts)


def path_of(*parts: str) -> str:
    """The path of a resource."""
    return "/1.0" + "".join(f"/{quote(part, safe='')}" for part in parts)


def failure(step: str, host: str, error: Exception) -> DriverError:
    """A failure as drivers tell it: a refused request (4xx) stays so, a failed operation may go well later."""
    if isinstance(error, Refused):
        text = error.text if len(error.text) <= MOST_TEXT else f"{error.text[:MOST_TEXT]}..."
        is_begun = isinstance(error, OperationFailed)
        lasting = not is_begun and 400 <= error.code < 500 and error.code not in (409, CHANGED, 423)
        return DriverError(step, host, text, transient=not lasting)
    return DriverError(step, host, str(error), transient=True, unanswered=True)
