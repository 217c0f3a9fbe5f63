"""A receiver of OpenTelemetry's traces, as a collector is one: OTLP over HTTP."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span as it was sent; ``parent`` is empty for the first of a trace that nobody began before."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: int
    failed: str
    facts: dict[str, Any]


@dataclass
class Receiver:
    """What came so far; ``url`` is what a program's setting says."""

    url: str
    spans: list[ReceivedSpan] = field(default_factory=list)

    def named(self, name: str) -> list[ReceivedSpan]:
        """The spans of this name."""
        return [span for span in list(self.spans) if span.name == name]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on an address of this machine, meanwhile."""
    receiver = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Take a batch of spans."""
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.spans += _spans_of(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Tell nobody."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _spans_of(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _facts(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    service,
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.kind,
                    span.status.message,
                    _facts(span.attributes),
                )


def _facts(attributes: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in attributes}
