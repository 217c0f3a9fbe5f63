"""Records spans with OpenTelemetry's SDK and sends them as OTLP over HTTP (extra ``opentelemetry``).

Only the receiver is a setting of this service. All other options are OpenTelemetry's environment variables, such as
OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and OTEL_BSP_MAX_QUEUE_SIZE.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bulkdeploy.telemetry.tracing import HEADER, BegunAnew, SpanKind, Value

PATH = "/v1/traces"
"""The path at which a receiver accepts traces (OTLP specification, OTLP/HTTP Request)."""

NAME, TIMEOUT = "OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_TIMEOUT"
TIMEOUT_S = "2"
"""The seconds for sending a batch, unless the environment variable TIMEOUT is set.

With the SDK's 10 s, a program whose receiver cannot be reached would take 40 s to end.
"""


class OpenTelemetryRecorder:
    """The recorder that sends spans with OpenTelemetry's SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("bulkdeploy", version("bulkdeploy"))
        self._contexts = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, kind: SpanKind, facts: Mapping[str, Value]) -> "Iterator[OpenTelemetrySpan]":
        """Begin a span that ends with the block; see ``Recorder.span``."""
        with self._tracer.start_as_current_span(
            name,
            kind=trace.SpanKind[kind.name],
            attributes=facts,
            record_exception=False,
            set_status_on_exception=False,
        ) as begun:
            span = OpenTelemetrySpan(begun)
            try:
                yield span
            except BegunAnew:
                raise
            except BaseException as error:
                span.fail(type(error).__name__)
                raise

    @contextmanager
    def continued(self, traceparent: str | None) -> Iterator[None]:
        """Continue the trace of ``traceparent`` in the block; see ``Recorder.continued``."""
        carrier = {} if traceparent is None else {HEADER: traceparent}
        token = context.attach(self._contexts.extract(carrier, context.Context()))
        try:
            yield
        finally:
            context.detach(token)

    def traceparent(self) -> str | None:
        """Return the ``traceparent`` of the current span, or None without a span."""
        carrier: dict[str, str] = {}
        self._contexts.inject(carrier)
        return carrier.get(HEADER)


class OpenTelemetrySpan:
    """A span of OpenTelemetry's SDK."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, name: str, value: Value) -> None:
        """Set an attribute of the span."""
        self._span.set_attribute(name, value)

    def fail(self, why: str) -> None:
        """Mark the span as failed with this reason."""
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, why))


def recorder_to(endpoint: str, service: str) -> OpenTelemetryRecorder:
    """Return a recorder that sends spans to a receiver, such as ``http://collector:4318``, in its own thread.

    ``service`` is the name of this program, unless the environment variable OTEL_SERVICE_NAME is set.
    """
    os.environ.setdefault(TIMEOUT, TIMEOUT_S)
    facts = {"service.name": os.environ.get(NAME, service), "service.version": version("bulkdeploy")}
    provider = TracerProvider(resource=Resource.create({**facts, "host.name": socket.gethostname()}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint.rstrip("/") + PATH)))
    return OpenTelemetryRecorder(provider)
