"""Consoles of guests over websockets: what the guest shows goes out, what a person types goes in.

The event loop carries the bytes: a console that is looked at for hours holds no thread of the API. Who comes with a
token of createConsoleEndpoint is let in; a VNC client then finds a server without password, since the driver has
gone through the host's.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs

import structlog
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, WebSocketScope

from bulkdeploy.domain.errors import BulkDeployError, DatabaseUnreachable
from bulkdeploy.drivers.driver import ConsoleKind, DriverError
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.guest_consoles import (
    Console,
    ConsoleRefused,
    connect,
    console_of,
)
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import run_transaction

log = structlog.get_logger(__name__)

PATH = "/client/console"
MOST_CONSOLES = 200
"""Of one process; each has two sockets."""

OPENING_THREADS = 4
CHUNK_BYTES = 64 * 1024
REFUSED, BUSY = 1008, 1013
"""Codes with which a websocket is closed (RFC 6455, section 7.4): policy violation, try again later."""

MOST_REASON_BYTES = 123
RFB_VERSION = b"RFB 003.008\n"
NO_SECURITY = b"\x01"


class GuestConsoles:
    """Answers websockets; made in the process that serves them."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._opening = ThreadPoolExecutor(OPENING_THREADS, "console")
        self._open = 0

    async def __call__(self, scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve one console until either side ends it."""
        await receive()
        await send({"type": "websocket.accept", "subprotocol": _binary(scope), "headers": []})
        if self._open >= MOST_CONSOLES:
            await _close(send, BUSY, f"{MOST_CONSOLES} consoles are open in this process")
            return
        self._open += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._open -= 1

    async def _serve(self, scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        given = parse_qs(scope["query_string"].decode("latin-1"))
        token, extra = (given.get(name, [""])[0] for name in ("token", "extra"))
        loop = asyncio.get_running_loop()
        try:
            console, connected = await loop.run_in_executor(self._opening, self._connect, token, extra)
        except (BulkDeployError, DriverError) as error:
            log.info("console_refused", why=str(error), address=scope["client"][0] if scope["client"] else "")
            await _close(send, REFUSED, str(error))
            return
        names = {"vm": str(console.vm_uuid), "user": str(console.user_uuid), "kind": str(console.kind)}
        log.info("console_opened", **names)
        try:
            await _carry(console.kind, connected, receive, send)
        finally:
            log.info("console_closed", **names)

    def _connect(self, token: str, extra: str) -> tuple[Console, socket.socket]:
        """The console of a token, connected; in a thread."""
        try:
            found = run_transaction(self._system.engine, lambda connection: console_of(connection, token, extra))
        except Exception as error:
            if is_unreachable(error):
                raise DatabaseUnreachable from error
            raise
        if isinstance(found, ConsoleRefused):
            raise found
        return found, connect(self._system, found)


async def _carry(
    kind: ConsoleKind, connected: socket.socket, receive: ASGIReceiveCallable, send: ASGISendCallable
) -> None:
    """Carry bytes both ways until one side is gone."""
    connected.setblocking(False)
    if connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader, writer = await asyncio.open_connection(sock=connected)
    typed = _messages(receive)
    try:
        rest = await _greet(typed, send) if kind is ConsoleKind.VNC else b""
        if rest is None:
            await _close(send, REFUSED, "an RFB client of version 3.8 is expected")
            return
        writer.write(rest)
        ways = [asyncio.create_task(_in(typed, writer)), asyncio.create_task(_out(reader, send))]
        done, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in left:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        if ways[1] in done:
            await _close(send, 1000, "the guest's console has ended")
    finally:
        writer.close()


async def _in(typed: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
    async for data in typed:
        writer.write(data)
        await writer.drain()


async def _out(reader: asyncio.StreamReader, send: ASGISendCallable) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await send({"type": "websocket.send", "bytes": data, "text": None})


async def _messages(receive: ASGIReceiveCallable) -> AsyncIterator[bytes]:
    """What the client sends, until it is gone."""
    while (message := await receive())["type"] == "websocket.receive":
        data, text = message.get("bytes"), message.get("text")
        yield data if data is not None else (text or "").encode()


async def _greet(typed: AsyncIterator[bytes], send: ASGISendCallable) -> bytes | None:
    """Be a VNC server that asks for no password (RFC 6143, section 7.1).

    Returns:
        What the client sent beyond its part of it; None: it is no client of this protocol.
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
    """Old VNC clients name the subprotocol that all messages of ours have."""
    return "binary" if "binary" in scope["subprotocols"] else None


async def _close(send: ASGISendCallable, code: int, reason: str) -> None:
    shown = reason.encode()[:MOST_REASON_BYTES].decode(errors="ignore")
    await send({"type": "websocket.close", "code": code, "reason": shown})
