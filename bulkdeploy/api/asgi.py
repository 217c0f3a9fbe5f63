"""The ASGI application of an API process, which runs the WSGI applications (Flask) in threads.

A call gets a thread only after its request has arrived completely, so slow clients use no threads. Monitoring
requests have their own threads. The event loop answers ``/health/live`` itself, without a thread.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, TypeAlias
from urllib.parse import unquote_plus

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope, WebSocketScope

from bulkdeploy.api.wire import MOST_PARAMETERS
from bulkdeploy.services.system import PASSWORD_THREADS, WATCHING_THREADS

Environ: TypeAlias = dict[str, Any]
Wsgi: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
Consoles: TypeAlias = Callable[[WebSocketScope, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]

LIVE, READY = "/health/live", "/health/ready"
MONITORING = ("/health/", "/metrics")
MOST_HELD_BYTES = 64 * 1024 * 1024
"""The most bytes of request bodies that one process has in memory. Further calls get status 503."""


PASSWORDS = ("password", "currentpassword")
"""The names of parameters whose values are passwords, which the API hashes or checks."""

OF_THE_CONNECTION = frozenset({b"connection", b"content-length", b"expect", b"upgrade"})
"""Headers that the HTTP protocol has already handled, and that are not passed to Flask.

Flask would reject requests that offer another protocol.
"""


@dataclass(frozen=True, slots=True)
class Applications:
    """The applications of a process.

    Attributes:
        calls: answers all requests except those for monitoring.
        monitoring: answers the requests whose path begins with one of MONITORING.
        is_proxy: returns whether an address is that of a trusted proxy; the event loop calls this function.
        consoles: creates the application that serves websockets, which are the consoles of guests; None if the
            process serves no consoles.
    """

    calls: Wsgi
    monitoring: Wsgi
    is_proxy: Callable[[str], bool] = field(default=lambda _: False)
    consoles: Callable[[], Consoles] | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def _plain(status: int, body: bytes, content_type: bytes = b"text/plain; charset=UTF-8") -> _Answer:
    length = str(len(body)).encode()
    return _Answer(status, [(b"Content-Type", content_type), (b"Content-Length", length)], body)


ALIVE = _plain(200, b'{"status":"live"}', b"application/json")
ENDING = _plain(503, b'{"status":"this process is ending"}', b"application/json")
CLOSE = (b"Connection", b"close")
NOT_FOUND = _plain(404, b"404 Not Found\n")
OVERLOADED = _plain(503, b"503 Service Unavailable\n")


class ThreadedApplication:
    """The ASGI application that runs the WSGI applications, created in the process that serves it.

    Args:
        applications: the WSGI applications.
        threads: the number of calls that can be answered at the same time.
        monitoring_port: the port on which only monitoring requests are answered; None if monitoring requests come
            on the same port as calls.
    """

    def __init__(self, applications: Applications, threads: int, monitoring_port: int | None = None) -> None:
        self._applications, self._monitoring_port = applications, monitoring_port
        self._consoles = None if applications.consoles is None else applications.consoles()
        self._calling = ThreadPoolExecutor(threads, "call")
        self._hashing = ThreadPoolExecutor(PASSWORD_THREADS, "password")
        self._watching = ThreadPoolExecutor(WATCHING_THREADS, "monitoring")
        self._held = 0
        self._ending = False

    def end(self) -> None:
        """Prepare the end of the process.

        From now on, the readiness check answers 503, and each connection is closed after its next response.
        """
        self._ending = True

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one HTTP request, or serve one console until it ends."""
        if scope["type"] == "websocket" and self._consoles is not None:
            await self._consoles(scope, receive, send)
        if scope["type"] != "http":
            return
        body: list[bytes] = []
        try:
            if await self._read(receive, body):
                answer = OVERLOADED if self._held > MOST_HELD_BYTES else await self._answer(scope, b"".join(body))
                headers = [*answer.headers, CLOSE] if self._ending else answer.headers
                await send({"type": "http.response.start", "status": answer.status, "headers": headers})
                await send({"type": "http.response.body", "body": answer.body, "more_body": False})
        finally:
            self._held -= sum(map(len, body))

    async def _read(self, receive: ASGIReceiveCallable, body: list[bytes]) -> bool:
        """Append the parts of the request's body to ``body``.

        Returns False if the client disconnected before the whole body arrived.
        """
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return False
            body.append(message["body"])
            self._held += len(message["body"])
            if not message["more_body"] or self._held > MOST_HELD_BYTES:
                return True

    async def _answer(self, scope: HTTPScope, body: bytes) -> _Answer:
        served = self._applications
        port = scope["server"][1] if scope["server"] else None
        watching = scope["path"].startswith(MONITORING)
        if self._monitoring_port is not None and watching is not (port == self._monitoring_port):
            return NOT_FOUND
        if scope["path"] == LIVE:
            return ALIVE
        if scope["path"] == READY and self._ending:
            return ENDING
        if watching:
            threads, application = self._watching, served.monitoring
        else:
            threads = self._hashing if _has_password(scope["query_string"], body) else self._calling
            application = served.calls
        return await asyncio.get_running_loop().run_in_executor(threads, _run, application, _environ(scope, body))


def _has_password(*encoded: bytes) -> bool:
    """Return whether a call contains a password, which must be hashed or checked.

    Hashing needs much time and memory, so calls with passwords have their own threads, and other calls do not wait
    for them. False for a request with too many parameters, which will be rejected anyway.
    """
    if sum(text.count(b"&") for text in encoded) >= MOST_PARAMETERS:
        return False  # such a request will be rejected
    names = (piece.partition(b"=")[0] for text in encoded for piece in text.split(b"&"))
    return any(unquote_plus(name.decode("latin-1")).lower() in PASSWORDS for name in names)


def _run(application: Wsgi, environ: Environ) -> _Answer:
    """Call a WSGI application in the current thread, and return its complete response."""
    begun: list[_Answer] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> None:
        del exc_info
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        begun.append(_Answer(int(status[:3]), encoded, b""))

    parts = application(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        close = getattr(parts, "close", None)
        if close is not None:
            close()
    return _Answer(begun[-1].status, begun[-1].headers, body)


def _environ(scope: HTTPScope, body: bytes) -> Environ:
    """Return a request in the form of WSGI (PEP 3333).

    Headers with an underscore are left out, because they would look like other headers that a proxy sets.
    """
    server, client = scope["server"] or ("", 0), scope["client"] or ("", 0)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    environ.update(_headers(scope["headers"]))
    return environ


def _headers(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for raw, value in headers:
        if raw in OF_THE_CONNECTION or b"_" in raw:
            continue
        name = raw.decode("latin-1").upper().replace("-", "_")
        key = name if name == "CONTENT_TYPE" else f"HTTP_{name}"
        text = value.decode("latin-1")
        found[key] = f"{found[key]},{text}" if key in found else text
    return found
