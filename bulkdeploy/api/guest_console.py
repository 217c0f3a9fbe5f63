"""Consoles of guests over websockets, which carry the guest's screen and the user's input.

The event loop copies the bytes, so an open console uses no thread. The token from createConsoleEndpoint is checked
before the connection becomes a websocket; without a valid token the response is 403. VNC clients need no password,
because the driver has already logged in to the host's VNC server. Every CHECK_SECONDS the open consoles are
checked, and a console whose user may not see it any more is closed.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs

import structlog
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, WebSocketScope

from bulkdeploy.domain.errors import BulkDeployError, DatabaseUnreachable
from bulkdeploy.drivers.abilities.consoles import ConsoleKind
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.guest_consoles import (
    Console,
    ConsoleRefused,
    UnknownConsoleToken,
    connect,
    console_of,
    forbidden_consoles,
)
from bulkdeploy.store.database.availability import is_unreachable, unavailability
from bulkdeploy.store.database.engine import read_only, run_transaction

log = structlog.get_logger(__name__)

PATH = "/client/console"
MOST_CONSOLES, MOST_CONSOLES_OF_A_USER = 200, 40
"""The most open consoles of one process, and of one user in one process. A console uses two sockets."""

CHECK_SECONDS = 2.0
"""The seconds between two checks whether the users of open consoles may still see them."""

OPENING_THREADS = 4
CHUNK_BYTES = 64 * 1024
REFUSED, BUSY, FORBIDDEN, UNAVAILABLE = 1008, 1013, 403, 503
"""Codes that close a websocket (RFC 6455, section 7.4), and HTTP statuses.

REFUSED is "policy violation", BUSY is "try again later". FORBIDDEN and UNAVAILABLE are the statuses with which a
connection is rejected before it becomes a websocket.
"""

MOST_REASON_BYTES = 123
RFB_VERSION = b"RFB 003.008\n"
NO_SECURITY = b"\x01"


class GuestConsoles:
    """The websocket application for consoles, created in the process that serves them."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._opening = ThreadPoolExecutor(OPENING_THREADS, "console")
        self._connecting = ThreadPoolExecutor(OPENING_THREADS, "console connection")
        self._open: dict[asyncio.Task[None], Console] = {}
        self._checking: asyncio.Task[None] | None = None

    async def __call__(self, scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one console until one side closes it or the user may not see it any more."""
        await receive()
        given = parse_qs(scope["query_string"].decode("latin-1"))
        token, extra = (given.get(name, [""])[0] for name in ("token", "extra"))
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._opening, self._console_of, token, extra)
        except BulkDeployError as error:
            _log_refusal(scope, error)
            await _reject(send, FORBIDDEN if isinstance(error, UnknownConsoleToken) else UNAVAILABLE, str(error))
            return
        await send({"type": "websocket.accept", "subprotocol": _binary(scope), "headers": []})
        if isinstance(found, ConsoleRefused):
            _log_refusal(scope, found)
            await _close(send, REFUSED, str(found))
            return
        problem = self._problem(found)
        if problem is not None:
            await _close(send, BUSY, problem)
            return
        task = asyncio.create_task(self._serve(found, scope, receive, send))
        self._open[task] = found
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_open())
        try:
            await asyncio.wait([task])
        finally:
            del self._open[task]
            task.cancel()  # matters if the process ends; cancelling a finished task has no effect
        if task.cancelled():
            await _close(send, REFUSED, "the user may not see this console any more")
        else:
            task.result()

    def _problem(self, console: Console) -> str | None:
        """Return why the user can open no more consoles in this process, or None if another one is allowed."""
        if len(self._open) >= MOST_CONSOLES:
            return f"{MOST_CONSOLES} consoles are open in this process"
        mine = sum(other.user_uuid == console.user_uuid for other in self._open.values())
        return f"the user has {mine} consoles open in this process" if mine >= MOST_CONSOLES_OF_A_USER else None

    async def _serve(
        self, console: Console, scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            connected = await loop.run_in_executor(self._connecting, connect, self._system, console)
        except (BulkDeployError, DriverError) as error:
            _log_refusal(scope, error)
            await _close(send, REFUSED, str(error))
            return
        names = {"vm": str(console.vm_uuid), "user": str(console.user_uuid), "kind": str(console.kind)}
        log.info("console_opened", **names)
        try:
            await _carry(console.kind, connected, receive, send)
        finally:
            log.info("console_closed", **names)

    def _console_of(self, token: str, extra: str) -> Console | ConsoleRefused:
        """Return the console that a token belongs to, or the reason why the console cannot be shown.

        The function reads the database, so it runs in a thread.

        Raises:
            UnknownConsoleToken: the token is not valid.
            DatabaseUnreachable: the database cannot be reached to check the token.
        """
        try:
            found = run_transaction(self._system.engine, lambda connection: console_of(connection, token, extra))
        except Exception as error:
            if is_unreachable(error):
                raise DatabaseUnreachable(unavailability(error)) from error
            raise
        if isinstance(found, UnknownConsoleToken):
            raise found
        return found

    async def _check_open(self) -> None:
        """Close open consoles whose users may not see them any more.

        Returns when no console is open.

        While the database cannot be reached, consoles stay open, because no permission can change meanwhile.
        """
        loop = asyncio.get_running_loop()
        try:
            while self._open:
                await asyncio.sleep(CHECK_SECONDS)
                opened = dict(self._open)
                forbidden = await loop.run_in_executor(self._opening, self._forbidden, list(opened.values()))
                for task, console in opened.items():
                    if console in forbidden:
                        log.info("console_forbidden", vm=str(console.vm_uuid), user=str(console.user_uuid))
                        task.cancel()
        finally:
            self._checking = None

    def _forbidden(self, opened: Sequence[Console]) -> list[Console]:
        try:
            with read_only(self._system.reading) as connection:
                return forbidden_consoles(connection, opened)
        except Exception as error:
            if not is_unreachable(error):
                log.exception("consoles_not_checked")
                return list(opened)
            log.warning("consoles_not_checked", error=str(error).partition("\n")[0])
            return []


def _log_refusal(scope: WebSocketScope, error: Exception) -> None:
    log.info("console_refused", why=str(error), address=scope["client"][0] if scope["client"] else "")


async def _reject(send: ASGISendCallable, status: int, reason: str) -> None:
    """Reject a websocket request with an HTTP response, which also ends the connection."""
    body = f"{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


async def _carry(
    kind: ConsoleKind, connected: socket.socket, receive: ASGIReceiveCallable, send: ASGISendCallable
) -> None:
    """Copy bytes between the client and the guest in both directions until one side closes the connection.

    A VNC client is first greeted like by a server without a password.
    """
    connected.setblocking(False)
    if connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader, writer = await asyncio.open_connection(sock=connected)
    typed = _messages(receive)
    ways: list[asyncio.Task[None]] = []
    try:
        rest = await _greet(typed, send) if kind is ConsoleKind.VNC else b""
        if rest is None:
            await _close(send, REFUSED, "an RFB client of version 3.8 is expected")
            return
        writer.write(rest)
        ways += [asyncio.create_task(_in(typed, writer)), asyncio.create_task(_out(reader, send))]
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if ways[1] in done:
            await _close(send, 1000, "the guest's console has ended")
    finally:
        writer.close()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _in(typed: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
    async for data in typed:
        writer.write(data)
        await writer.drain()


async def _out(reader: asyncio.StreamReader, send: ASGISendCallable) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await send({"type": "websocket.send", "bytes": data, "text": None})


async def _messages(receive: ASGIReceiveCallable) -> AsyncIterator[bytes]:
    """Yield the messages that the client sends, until the client disconnects."""
    while (message := await receive())["type"] == "websocket.receive":
        data, text = message.get("bytes"), message.get("text")
        yield data if data is not None else (text or "").encode()


async def _greet(typed: AsyncIterator[bytes], send: ASGISendCallable) -> bytes | None:
    """Do the VNC handshake with a client, as a server that asks for no password (RFC 6143, section 7.1).

    Returns:
        The bytes that the client sent after the handshake; None if the client does not speak this protocol or
            disconnects.
    """
    received = b""
    for said, expected in ((RFB_VERSION, len(RFB_VERSION)), (b"\x01" + NO_SECURITY, 1)):
        await send({"type": "websocket.send", "bytes": said, "text": None})
        while len(received) < expected:
            more = await anext(typed, None)
            if more is None:
                return None
            received += more
        if not said.endswith(received[:expected]):
            return None
        received = received[expected:]
    await send({"type": "websocket.send", "bytes": bytes(4), "text": None})
    return received


def _binary(scope: WebSocketScope) -> str | None:
    """Return the websocket subprotocol ``binary`` if the client offers it, otherwise None.

    Old VNC clients offer it. Consoles always send binary messages.
    """
    return "binary" if "binary" in scope["subprotocols"] else None


async def _close(send: ASGISendCallable, code: int, reason: str) -> None:
    shown = reason.encode()[:MOST_REASON_BYTES].decode(errors="ignore")
    await send({"type": "websocket.close", "code": code, "reason": shown})
