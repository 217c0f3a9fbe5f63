"""A process of the HTTP API: uvicorn's event loop under gunicorn's supervision.

Gunicorn loads the application once, forks, replaces what dies and passes signals on. Its own workers give a thread
to every connection that has begun to send, however slowly; here the loop reads, and threads get whole requests.
"""

import asyncio
import logging
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from gunicorn.workers.base import Worker
from uvicorn.config import Config
from uvicorn.server import Server

from bulkdeploy.api.asgi import ThreadedApplication
from bulkdeploy.api.connections import Connections
from bulkdeploy.api.guest_console import MOST_CONSOLES
from bulkdeploy.api.protocol import BoundedProtocol, ConsoleProtocol, Patience
from bulkdeploy.manage.programs.api import GRACEFUL_SECONDS, LAST_CALLS_SECONDS
from bulkdeploy.wiring.settings import Settings

MOST_CONNECTIONS = 4096
BACKLOG = 1024
OTHER_FILES = BACKLOG + MOST_CONSOLES + 256
"""Open files beside connections: those accepted before others have gone, to consoles, the database's, Redis, logs,
figures."""

MOST_MESSAGE_BYTES = 1024 * 1024
"""Largest message from a console's client, in bytes: what is typed or pasted."""


class _QuietServer(Server):
    """Uvicorn's server, which leaves signals to its caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def end_later(self, application: ThreadedApplication, delay_s: float) -> None:
        """Report "not ready", serve for ``delay_s`` seconds, then stop accepting connections and end.

        Calls on connections that were just accepted are still answered. If a proxy connects after the socket is
        closed, it knows that its call was not started and sends it to another process. If an accepted connection is
        closed unread, the proxy does not know this.
        """
        application.end()
        await asyncio.sleep(delay_s)
        for listening in self.servers:
            listening.close()
        await asyncio.sleep(LAST_CALLS_SECONDS)
        self.should_exit = True


class ApiWorker(Worker):  # type: ignore[misc] # gunicorn ships no types
    """Serves the ``Applications`` that the server loaded."""

    def init_signals(self) -> None:
        """Install none of gunicorn's signal handlers, because the event loop handles the signals."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def run(self) -> None:
        """Serve until SIGTERM, and then finish the open calls."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        settings: Settings = self.app.settings
        listeners = [listener.sock for listener in self.sockets]
        watched = None if settings.monitoring_listen is None else int(listeners[-1].getsockname()[1])
        application = ThreadedApplication(self.wsgi, settings.api_threads, watched)
        server = _QuietServer(server_config(settings, application, self.wsgi.is_proxy, self._report_alive))
        loop = asyncio.get_running_loop()
        ending: list[asyncio.Task[None]] = []

        def end() -> None:
            if settings.shutdown_delay_seconds and not ending:
                ending.append(loop.create_task(server.end_later(application, settings.shutdown_delay_seconds)))
            else:
                server.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, end)
        await server.serve(sockets=listeners)

    async def _report_alive(self) -> None:
        self.notify()


def server_config(
    settings: Settings,
    application: ThreadedApplication,
    is_proxy: Callable[[str], bool],
    notify: Callable[[], Awaitable[None]] | None = None,
) -> Config:
    """Return uvicorn's configuration for the application. It must be called in the event loop."""
    patience = Patience(settings.request_header_seconds, settings.request_body_seconds, settings.keepalive_seconds)
    loop = asyncio.get_running_loop()
    connections = Connections(connection_limit(), settings.connections_per_address, is_proxy, loop)
    protocol: Any = partial(BoundedProtocol, connections, patience)
    return Config(
        application,
        http=protocol,
        ws=ConsoleProtocol,
        ws_per_message_deflate=False,
        ws_max_size=MOST_MESSAGE_BYTES,
        lifespan="off",
        interface="asgi3",
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keepalive_seconds,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        callback_notify=notify,
    )


def connection_limit() -> int:
    """Return the number of connections that this process may have.

    The limit of open files is raised for this number if possible.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(MOST_CONNECTIONS, soft - OTHER_FILES))
