"""Trace spans of calls, jobs and hypervisor calls (ADR 46).

There are none until ``record_with`` says who records them, which ``wiring.tracing`` does where a setting asks for
it. Until then a span costs next to nothing, and nothing of OpenTelemetry is imported.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Protocol

HEADER = "traceparent"
"""Carries a trace from one program to the next: W3C, Trace Context, section 3.2."""

Value = str | int
Facts = Callable[[], Mapping[str, Value]]
"""What is known of a span as it begins, under OpenTelemetry's names where there are some."""


class SpanKind(Enum):
    """The kind of a span; the names are OpenTelemetry's."""

    SERVER = "a call that is answered"
    PRODUCER = "jobs that are sent"
    CONSUMER = "a job that is run"
    CLIENT = "a call to somebody else"
    INTERNAL = "a part of one of these"


class BegunAnew(Exception):
    """Raised to repeat the work of a span. The span ends without being marked as failed."""


class Span(Protocol):
    """A trace span that has not ended."""

    def set(self, name: str, value: Value) -> None:
        """Set an attribute."""

    def fail(self, why: str) -> None:
        """Mark the span as failed."""


class Recorder(Protocol):
    """A recorder of spans."""

    def span(self, name: str, kind: SpanKind, facts: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """Begin a span. Its parent is this thread's span or the one of ``continued``; otherwise a new trace begins.

        If an error passes through the block, only its type is recorded, because its text can contain secrets.
        ``BegunAnew`` is not recorded as an error.
        """

    def continued(self, traceparent: str | None) -> AbstractContextManager[None]:
        """Make spans that begin in this thread inside the block parts of that span.

        None, or an invalid text: of none.
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
    """Record all later spans with a recorder."""
    global _recorder  # noqa: PLW0603 - one for a process, as its log is
    _recorder = recorder


def span(name: str, kind: SpanKind = SpanKind.INTERNAL, facts: Facts = dict) -> AbstractContextManager[Span]:
    """Return a span that lasts as long as the block; see Recorder.

    ``facts`` is called only where spans are recorded.
    """
    return _NO_SPAN if _recorder is None else _recorder.span(name, kind, facts())


def continued(traceparent: str | None) -> AbstractContextManager[None]:
    """Continue the trace of another program inside the block."""
    return _NOTHING if _recorder is None else _recorder.continued(traceparent)


def current_traceparent() -> str | None:
    """Return the ``traceparent`` of this thread's span, or None if nothing is traced.

    The text is stored with a job, so that the worker continues the trace.
    """
    return None if _recorder is None else _recorder.traceparent()
