"""The HTTP server with metrics and health checks of a worker, the sweeper or another program.

API processes answer the same paths on their own address.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bulkdeploy.telemetry.metrics import OwnFigures, Program
from bulkdeploy.wiring.settings import Settings

log = structlog.get_logger(__name__)

Trouble = Callable[[], str | None]
"""Returns a text about what is wrong now, or None if nothing is wrong."""


@contextmanager
def monitored(settings: Settings, program: Program, *, live: Trouble, ready: Trouble) -> Iterator[None]:
    """Serve ``/metrics``, ``/health/live`` and ``/health/ready`` during the block.

    Nothing is served if the setting ``monitoring_listen`` is not set, or, with a warning in the log, if its address
    is in use.

    Args:
        settings: the settings.
        program: the program whose metrics are served.
        live: returns why the program must be restarted, or None.
        ready: returns why the program cannot work now, or None.
    """
    if settings.monitoring_listen is None:
        yield
        return
    host, _, port = settings.monitoring_listen.rpartition(":")
    try:
        server = _Server((host.strip("[]"), int(port)), _handler(OwnFigures(program), live, ready))
    except OSError as error:
        log.warning("monitoring_not_served", address=settings.monitoring_listen, why=str(error))
        yield
        return
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="monitoring", daemon=True)
    thread.start()
    log.info("monitoring_served", address=f"{host}:{server.server_port}")
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Log an error, unless the client closed the connection before the response was sent."""
        del request
        if not isinstance(sys.exception(), ConnectionError):
            log.exception("monitoring_failed", address=str(client_address))


def _handler(figures: OwnFigures, live: Trouble, ready: Trouble) -> type[BaseHTTPRequestHandler]:
    checks = {"/health/live": live, "/health/ready": ready}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer a request, with status 404 for an unknown path."""
            if self.path == "/metrics":
                self._answer(200, generate_latest(figures), CONTENT_TYPE_LATEST)
            elif self.path in checks:
                trouble = checks[self.path]()
                status = self.path.rpartition("/")[2] if trouble is None else trouble
                self._answer(200 if trouble is None else 503, json.dumps({"status": status}).encode())
            else:
                self._answer(404, b'{"status": "this path does not exist"}')

        def _answer(self, code: int, body: bytes, content_type: str = "application/json") -> None:
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing, because monitoring systems send requests every few seconds."""

    return Handler
