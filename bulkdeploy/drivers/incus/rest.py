"""A client of Incus's REST API: requests, and waiting for operations (one file: a client of one API).

A request is sent to the first member that answers. Source: Incus's doc/rest-api.md and doc/rest-api.yaml, version
6.0.
"""

import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from typing_extensions import override
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.cluster_http import CONNECT_S, CONNECTIONS, ClusterHttp, NotAnswered, shown

WAIT_S = 30
"""The time for which one request waits for an operation, in seconds.

Then the request is repeated.

If the operation has not ended by then, Incus 6.0 returns error 500 "context deadline exceeded"; later releases
return the operation.
"""

ANSWER_S, REPEAT_S = 5.0, 0.5
"""The time after WAIT_S within which the response must arrive, and the pause before the next request, in seconds.
"""

OK, NOT_FOUND, CHANGED = 200, 404, 412
SAYS_NOTHING = ("context deadline exceeded", "unexpected EOF", "EOF")
"""Errors of a wait that do not show how the operation ended: a timeout, or a lost connection to a member."""
UNDER_WAY = (103, 104, 105)
"""The status codes of an operation that has not ended: Running, Cancelling, Pending."""

NOT_READY = ("no available cowsql leader", "context deadline exceeded", "driver: bad connection", "not leader")
"""Parts of errors 500 which show that the cluster's database has no leader now."""


class Refused(Exception):
    """Raised if Incus rejects a request.

    Attributes:
        code: the HTTP status, or the error code in the response.
        text: Incus's error text.
    """

    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(text)


class OperationFailed(Refused):
    """Raised if an operation has failed or was cancelled after it began.

    ``code`` is the code of the operation (400, 401) or of its error, and not the status of the request.
    """


@dataclass(frozen=True, slots=True)
class Access:
    """The address and the credentials of a cluster.

    Attributes:
        urls: the urls of all members; ``unix://PATH`` for a socket of this machine.
        client: the files of the client's certificate and key.
        ca_file: certificates of the authorities that signed the members'. None: public authorities.
        fingerprint: the SHA-256 of the cluster's certificate, which then needs no authority.
        project: the project in Incus that requests address.
    """

    urls: tuple[str, ...]
    client: tuple[str, str] | None = None
    ca_file: str | None = None
    fingerprint: str | None = None
    project: str = "default"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its value, and the tag that ``if_match`` compares."""

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
    """An HTTP adapter that sends all requests over one Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._pool = _SocketPool(path)

    @override
    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        return self._pool

    @override
    def close(self) -> None:
        self._pool.close()


class Incus:
    """A client of the REST API of one cluster. Several threads may share it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        sockets = {f"http://socket{n}": urlsplit(url).path for n, url in enumerate(access.urls) if _is_socket(url)}
        urls = [*sockets, *(url.rstrip("/") for url in access.urls if not _is_socket(url))]
        self.http = ClusterHttp(
            urls, fingerprint=access.fingerprint, ca_file=access.ca_file, is_silent=_has_no_leader
        )
        self.http.session.cert = access.client
        for url, path in sockets.items():
            self.http.session.mount(url, _SocketAdapter(path))

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
        """Send one request to the first member that answers, and return the response.

        Args:
            method: the HTTP method.
            path: the path of the resource.
            body: JSON, or an iterable of chunks of a file, which is sent to one member only.
            timeout_s: the time for all members together, in seconds.
            if_match: the tag of the object. The object is changed only if it still has this tag.
            query: parameters; None values are omitted.

        Raises:
            NotAnswered: no member answered in time.
            Refused: Incus rejected the request.
        """
        is_file = body is not None and not isinstance(body, dict)
        headers = {} if if_match is None else {"If-Match": if_match}
        if is_file:
            headers["Content-Type"] = "application/octet-stream"
        parameters = {"project": self.access.project, **query}
        content = {"data": body} if is_file else {"json": body}
        answer = self.http.send(
            method,
            path,
            timeout_s=timeout_s,
            is_repeatable=not is_file,
            params=parameters,
            headers=headers,
            **content,
        )
        return _read(answer)

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
        """Begin an operation, wait for its end, and return its result, which is empty if it is not known.

        Raises:
            NotAnswered: no member answered, or the operation has not ended in time and may continue.
            OperationFailed: the operation failed.
            Refused: Incus rejected the request.
        """
        end = time.monotonic() + timeout_s
        begun = self.send(method, path, body, timeout_s=timeout_s, if_match=if_match, **query).value
        begun = self._wait_until_ended(begun, end)
        if begun.get("err"):
            raise OperationFailed(int(begun["status_code"]), str(begun["err"]))
        return dict(begun.get("metadata") or {})

    def wait_for_operations(self, path: str, *, timeout_s: float) -> None:
        """Wait until no operation on a resource is running, for example one whose response was lost.

        Args:
            path: the path of the resource.
            timeout_s: the time for all operations together, in seconds.

        Raises:
            NotAnswered: no member answered, or an operation has not ended in time.
            Refused: Incus rejected a request.
        """
        end = time.monotonic() + timeout_s
        by_status = self.send("GET", path_of("operations"), timeout_s=timeout_s, recursion=1).value
        for one in (one for alike in by_status.values() for one in alike):
            named = [resource for alike in (one.get("resources") or {}).values() for resource in alike or ()]
            if any(urlsplit(resource).path == path for resource in named):
                self._wait_until_ended(one, end)

    def _wait_until_ended(self, operation: dict[str, Any], end: float) -> dict[str, Any]:
        """Wait for the end of an operation and return it, or an empty dict if Incus has deleted it.

        Incus deletes an operation soon after its end, or when the member that ran it dies. The caller then reads
        the object that the operation changed.

        Raises:
            NotAnswered: the operation has not ended at the time ``end`` of ``time.monotonic``.
            Refused: Incus rejected a request.
        """
        where = path_of("operations", operation.get("id", ""))
        while operation.get("status_code") in UNDER_WAY:
            left = end - time.monotonic()
            if left <= 0:
                raise NotAnswered(f"operation {operation['id']} has not ended in time")
            wait_s = max(1, min(WAIT_S, int(left)))
            try:
                operation = self.send("GET", f"{where}/wait", timeout_s=wait_s + ANSWER_S, timeout=wait_s).value
            except NotAnswered:
                time.sleep(min(REPEAT_S, left))
            except Refused as error:
                operation = self._look_after(operation, error, end)
        return operation

    def _look_after(self, operation: dict[str, Any], error: Refused, end: float) -> dict[str, Any]:
        """Return the current state of an operation after a wait for it ended with ``error``.

        Incus returns the same kind of error if the operation failed and if the wait timed out; only the operation
        itself distinguishes them. Returns ``operation`` if Incus does not answer now, and an empty dict if Incus
        has deleted the operation and its error is not known.

        Raises:
            OperationFailed: the operation failed, and Incus has deleted it since.
            Refused: Incus rejected the request.
        """
        try:
            return dict(self.send("GET", path_of("operations", operation["id"]), timeout_s=ANSWER_S).value)
        except (Refused, NotAnswered) as unseen:
            if isinstance(unseen, Refused) and unseen.code == NOT_FOUND:
                if isinstance(error, OperationFailed) and error.text not in SAYS_NOTHING:
                    raise error from unseen
                return {}
            if isinstance(unseen, Refused) and unseen.code < 500:
                raise
            time.sleep(max(0.0, min(REPEAT_S, end - time.monotonic())))
            return operation

    def close(self) -> None:
        """Close all connections."""
        self.http.close()


def _is_socket(url: str) -> bool:
    return urlsplit(url).scheme == "unix"


def _read(answer: requests.Response) -> Answer:
    try:
        found = answer.json()
    except ValueError:
        raise Refused(answer.status_code, answer.text) from None
    if found.get("type") == "error":
        # the response to a wait begins before the wait ends
        kind = OperationFailed if answer.status_code == OK else Refused
        raise kind(int(found.get("error_code") or answer.status_code), str(found.get("error")))
    return Answer(found.get("metadata") or {}, answer.headers.get("ETag"))


def _has_no_leader(answer: requests.Response) -> bool:
    if urlsplit(answer.url).path.endswith("/wait"):  # the wait has ended, and the operation continues
        return False
    return answer.status_code == 500 and any(text in answer.text for text in NOT_READY)


def path_of(*parts: str) -> str:
    """Return the API path of a resource from its unquoted parts."""
    return "/1.0" + "".join(f"/{quote(part, safe='')}" for part in parts)


def failure(step: str, host: str, error: Exception) -> DriverError:
    """Convert an error of Incus to a DriverError.

    A rejected request (4xx) is permanent. A failed operation is transient.
    """
    if isinstance(error, Refused):
        is_begun = isinstance(error, OperationFailed)
        lasting = not is_begun and 400 <= error.code < 500 and error.code not in (409, CHANGED, 423)
        return DriverError(step, host, shown(error.text), transient=not lasting)
    return DriverError(step, host, str(error), transient=True, unanswered=True)
