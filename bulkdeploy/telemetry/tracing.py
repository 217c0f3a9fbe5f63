"""Trace spans of calls, jobs and hypervisor calls (ADR 46).

Spans are recorded only after ``record_with`` was called, which ``wiring.tracing`` does if a setting requires it.
Otherwise spans cost almost nothing, and OpenTelemetry is not imported.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Protocol

HEADER = "traceparent"
"""The header that passes a trace from one program to the next (W3C, Trace Context, section 3.2)."""

Value = str | int
Facts = Callable[[], Mapping[str, Value]]
"""Returns the attributes of a span at its beginning, with OpenTelemetry's names where there are some."""


class SpanKind(Enum):
    """The kind of a span; the names are OpenTelemetry's."""

    SERVER = "a call that is answered"
    PRODUCER = "jobs that are sent"
    CONSUMER = "a job that is run"
    CLIENT = "a call to another program"
    INTERNAL = "a part of another span"


class BegunAnew(Exception):
    """Raised to repeat the work of a span. The span ends without being marked as failed."""


class Span(Protocol):
    """A trace span that has not ended."""

    def set(self, name: str, value: Value) -> None:
        """Set an attribute."""

    def fail(self, why: str) -> None:
        """Mark the span as failed because of ``why``."""


class Recorder(Protocol):
    """A recorder of spans."""

    def span(self, name: str, kind: SpanKind, facts: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """Begin a span that ends with the block.

        The parent of the span is this thread's current span or the span of ``continued``; without either, a new
        trace begins. If an exception leaves the block, only its type is recorded, because its text may contain
        secrets. ``BegunAnew`` is not recorded as an error.
        """

    def continued(self, traceparent: str | None) -> AbstractContextManager[None]:
        """Make the span that ``traceparent`` names the parent of spans that begin in this thread in the block.

        If ``traceparent`` is None or invalid, the spans have no parent outside the block.
        """

    def traceparent(self) -> str | None:
        """Return this thread's span as a text for ``continued`` in any program, or None if there is no span."""


class _NoSpan:
    def set(self, name: str, value: Value) -> None:
        """Do nothing, because spans are not recorded."""

    def fail(self, why: str) -> None:
        """Do nothing, because spans are not recorded."""


_recorder: Recorder | None = None
_NO_SPAN: AbstractContextManager[Span] = nullcontext(_NoSpan())
_NOTHING: AbstractContextManager[None] = nullcontext()


def record_with(recorder: Recorder) -> None:
    """Record all spans that begin from now on with ``recorder``."""
    global _recorder  # noqa: PLW0603 - one recorder for the process
    _recorder = recorder


def span(name: str, kind: SpanKind = SpanKind.INTERNAL, facts: Facts = dict) -> AbstractContextManager[Span]:
    """Return a span that lasts as long as the ``with`` block; see ``Recorder.span``.

    ``facts`` is called only if spans are recorded.
    """
    return _NO_SPAN if _recorder is None else _recorder.span(name, kind, facts())


def continued(traceparent: str | None) -> AbstractContextManager[None]:
    """Make spans in the block part of the trace that ``traceparent`` names; see ``Recorder.continued``."""
    return _NOTHING if _recorder is None else _recorder.continued(traceparent)


def current_traceparent() -> str | None:
    """Return the ``traceparent`` of this thread's span, or None if nothing is traced.

    The text is stored with a job, so that the worker continues the trace.
    """
    return None if _recorder is None else _recorder.traceparent()
