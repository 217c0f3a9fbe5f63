"""HTTP/1.1 on one connection, with limits on bytes and time (one file: the states of one connection).

The class extends uvicorn's protocol, which has no time limits for headers and bodies and no size limit for headers.
Requests that are rejected before they become calls get an error response in the format of the API.
"""

from asyncio import AbstractEventLoop, BaseTransport, TimerHandle, Transport
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import structlog
from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from bulkdeploy.api.connections import Connections
from bulkdeploy.api.guest_console import PATH as CONSOLES
from bulkdeploy.api.refused_requests import refusal_of
from bulkdeploy.api.wire import MOST_BODY_BYTES
from bulkdeploy.domain.errors import BulkDeployError, RequestTooLarge
from bulkdeploy.domain.request_errors import (
    HeadersTooLarge,
    MalformedRequest,
    RequestLineTooLong,
    RequestTooSlow,
    ServerBusy,
)
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)

LONGEST_URL = 128 * 1024
"""The most bytes of a URL. Clients such as cmk send user data and all other parameters in the URL."""

MOST_HEADERS, MOST_HEADER_BYTES = 100, 64 * 1024
LINGER_S = 2.0
"""The seconds between an error response and the closing of the connection.

If the connection were closed at once, a client that is still sending would not receive the response.
"""

LEAST_TAKEN_BYTES = 64 * 1024
"""The bytes that a client must read of its response between two checks to stay connected."""


class Reading(Enum):
    """The part of a request that is being read; NOTHING before a request, WHOLE after its end."""

    NOTHING = "nothing"
    HEADERS = "headers"
    BODY = "body"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits for clients, in seconds.

    Attributes:
        headers: from the connection or the first byte of a request to the end of the headers.
        body: from the end of the headers to the end of the body.
        kept: between two requests; also between two checks whether the client reads its response.
    """

    headers: float
    body: float
    kept: float


class BoundedProtocol(HttpToolsProtocol):
    """The protocol of one connection.

    Uvicorn creates the object through ``functools.partial``, which binds the arguments before ``config``.
    """

    def __init__(
        self,
        connections: Connections,
        patience: Patience,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._together, self._patience = connections, patience
        self._reading, self._timed = Reading.NOTHING, Reading.NOTHING
        self._timer: TimerHandle | None = None
        self._unread_timer: TimerHandle | None = None
        self._head_bytes = self._header_bytes = self._body_bytes = 0
        self._why: BulkDeployError | None = None
        self._refused = False
        self.url = b""

    # --- the connection -------------------------------------------------------------------

    def connection_made(self, transport: BaseTransport) -> None:
        """Count the new connection, and start the time limit for its first request."""
        super().connection_made(cast(Transport, transport))
        self._together.opened(self, self.client[0] if self.client else "")
        self._timer = self.loop.call_later(self._patience.headers, self._hang_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and no longer count the connection."""
        self._refused = True
        self._stop_timers()
        self._unset_keepalive_if_required()
        self._together.closed(self)
        super().connection_lost(exc)

    def evict(self) -> None:
        """Close the connection to make room for another one."""
        metrics.REQUESTS_REFUSED.labels("no room").inc()
        self._hang_up()

    def shutdown(self) -> None:
        """Close the connection because the process ends, after the response to a call in progress."""
        if self._reading is not Reading.WHOLE and self._answered:
            self._hang_up()
        else:
            super().shutdown()

    # --- reading --------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse received bytes. Bytes after a rejected request are ignored."""
        if self._refused:
            return
        if self._reading is Reading.NOTHING:
            self._reading = Reading.HEADERS
        super().data_received(data)
        if self._reading is Reading.HEADERS:
            self._head_bytes += len(data)
            if self._head_bytes > LONGEST_URL + MOST_HEADER_BYTES and not self._refused:
                self._refuse(self._headers_too_large())
        self._watch_the_time()

    def on_message_begin(self) -> None:
        """Reset the byte counters at the beginning of a request."""
        super().on_message_begin()
        self._reading = Reading.HEADERS
        self._head_bytes = self._header_bytes = self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL, and reject a URL that is too long."""
        super().on_url(url)
        if len(self.url) > LONGEST_URL:
            self._give_up(RequestLineTooLong(LONGEST_URL))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, and reject the request if its headers are too many or too large.

        A request whose ``Content-Length`` is too large is rejected too.
        """
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if len(self.headers) > MOST_HEADERS or self._header_bytes > MOST_HEADER_BYTES:
            self._give_up(self._headers_too_large())
        if name.lower() == b"content-length" and (len(value) > 18 or int(value) > MOST_BODY_BYTES):
            self._give_up(RequestTooLarge("bytes", MOST_BODY_BYTES))

    def on_headers_complete(self) -> None:
        """Record that the headers are complete.

        Uvicorn's URL parser accepts at most 64 KiB, so it gets the URL without the query.
        """
        whole = self.url
        self.url, _, query = whole.partition(b"?")
        super().on_headers_complete()
        self.url, self.scope["query_string"] = whole, query
        self._reading = Reading.BODY

    def on_body(self, body: bytes) -> None:
        """Add a part of the body, and reject a body that is too long.

        The length of a chunked body is not known in advance.
        """
        self._body_bytes += len(body)
        if self._body_bytes > MOST_BODY_BYTES:
            self._give_up(RequestTooLarge("bytes", MOST_BODY_BYTES))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        super().on_message_complete()
        if self._is_for_console():
            return
        if self.cycle.response_complete:
            self._wait_for_request()
        else:
            if not self._together.works(self):
                self._give_up(ServerBusy())
            self._reading = Reading.WHOLE

    # --- consoles -------------------------------------------------------------------------

    def _is_for_console(self) -> bool:
        return bool(self.parser.should_upgrade()) and self._should_upgrade()

    def _should_upgrade_to_ws(self) -> bool:
        """Return whether the URL is that of guests' consoles, which are the only websockets.

        Other requests to upgrade the connection are treated as ordinary requests.
        """
        return self.url.partition(b"?")[0] == CONSOLES.encode()

    def handle_websocket_upgrade(self) -> None:
        """Pass the connection to uvicorn's websocket protocol.

        Until its token is verified, the connection counts as waiting for a request, so it may be closed to make
        room. Afterwards it counts only as a console (``api.guest_console``).
        """
        self._refused = True
        self._stop_timers()
        self._unset_keepalive_if_required()
        super().handle_websocket_upgrade()
        upgraded = self.transport.get_protocol()
        if isinstance(upgraded, ConsoleProtocol):
            upgraded.leave_calls = lambda: self._together.closed(self)

    @property
    def _answered(self) -> bool:
        """Return whether every earlier call on this connection has its answer."""
        if self._reading is Reading.BODY:  # the newest cycle belongs to the request that is being read
            return not self.pipeline
        return self.cycle is None or bool(self.cycle.response_complete)

    # --- answering ------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """Record that the response is written, and begin to check whether the client reads it."""
        super().on_response_complete()
        if self._reading is Reading.WHOLE and self.cycle.response_complete:
            self._wait_for_request()
        unread = self.transport.get_write_buffer_size()
        if unread and self._unread_timer is None:
            self._unread_timer = self.loop.call_later(self._patience.kept, self._look_at_unread, unread)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, unless the client is still reading a response."""
        if not self.transport.get_write_buffer_size():
            super().timeout_keep_alive_handler()

    def _look_at_unread(self, before: int) -> None:
        self._unread_timer = None
        unread = self.transport.get_write_buffer_size()
        if not unread:
            return
        if unread > before - LEAST_TAKEN_BYTES:
            self._hang_up()
        else:
            self._unread_timer = self.loop.call_later(self._patience.kept, self._look_at_unread, unread)

    def _wait_for_request(self) -> None:
        self._reading = Reading.NOTHING
        self._together.waits(self)

    # --- the time -------------------------------------------------------------------------

    def _watch_the_time(self) -> None:
        """Start the time limit for the part of the request that is read now, if none is running for it."""
        if self._reading is self._timed or self._refused:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timed = self._reading
        seconds = self._seconds()
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._time_is_up)

    def _seconds(self) -> float | None:
        return {Reading.HEADERS: self._patience.headers, Reading.BODY: self._patience.body}.get(self._reading)

    def _time_is_up(self) -> None:
        seconds = self._seconds()
        if seconds is None:
            return
        if self._answered:
            self._refuse(RequestTooSlow(self._reading.value, seconds))
        else:  # uvicorn reads no further while an earlier call is being answered
            self._timer = self.loop.call_later(seconds, self._time_is_up)

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._unread_timer = None

    # --- refusing -------------------------------------------------------------------------

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(MOST_HEADERS, MOST_HEADER_BYTES)

    def _give_up(self, why: BulkDeployError) -> None:
        """Record the error ``why`` and stop the parser, which then calls ``send_400_response``."""
        self._why = why
        raise why

    def send_400_response(self, msg: str) -> None:
        """Reject a request that the parser could not read."""
        del msg
        self._refuse(self._why or MalformedRequest())

    def _refuse(self, error: BulkDeployError) -> None:
        """Send an error response, and close the connection after LINGER_S.

        If an earlier call on the connection is not answered yet, the connection is closed at once without a
        response.
        """
        self._refused = True
        self._stop_timers()
        self._unset_keepalive_if_required()
        metrics.REQUESTS_REFUSED.labels(type(error).__name__).inc()
        log.info("request_refused", error=type(error).__name__, address=self.client[0] if self.client else "")
        if self.transport.is_closing() or not self._answered:
            self._hang_up()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write(refusal_of(error, self.url))
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_S, self._hang_up)

    def _hang_up(self) -> None:
        self._refused = True
        self.transport.abort()


class ConsoleProtocol(WebSocketsSansIOProtocol):
    """The protocol of a connection that is, or will become, a websocket."""

    leave_calls: Callable[[], None] | None = None
    """Stops counting the connection among those for calls. A second call has no effect."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the application.

        When the application accepts the websocket, the token is valid, and the connection no longer counts among
        those for calls.
        """
        if message["type"] == "websocket.accept" and self.leave_calls is not None:
            self.leave_calls()
        await super().send(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection among those for calls."""
        super().connection_lost(exc)
        if self.leave_calls is not None:
            self.leave_calls()
