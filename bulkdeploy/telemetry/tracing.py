"""Spans: how long a call, its jobs and calls to hypervisors take, and which of them is part of which (ADR 46).

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
    """Ends spans that have not failed: what they are part of begins anew."""


class Span(Protocol):
    """A span, while it lasts."""

    def set(self, name: str, value: Value) -> None:
        """Note a fact."""

    def fail(self, why: str) -> None:
        """Mark it as failed."""


class Recorder(Protocol):
    """A recorder of spans."""

    def span(self, name: str, kind: SpanKind, facts: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """Begin a part of this thread's span, or of what ``continued`` named, or else the first of a new trace.

        An error that passes is noted by its type alone: what it says may hold secrets. ``BegunAnew`` is none.
        """

    def continued(self, traceparent: str | None) -> AbstractContextManager[None]:
        """Make spans that begin in this thread inside the block parts of that span.

        None, or an invalid text: of none.
        """

    def traceparent(self) -> str | None:
        """Return this thread's span as a text that ``continued`` takes in any program.

        Return None if there is none.
        """


class _NoSpan:
    def set(self, name: str, value: Value) -> None:
        """Do nothing, because spans are not recorded."""

    def fail(self, why: str) -> None:
        """Do nothing, because spans are not recorded."""


_recorder: Recorder | None = None
_NO_SPAN: AbstractContextManager[Span] = nullcontext(_NoSpan())
_NOTHING: AbstractContextManager[None] = nullcontext()


def record_with(recorder: Recorder) -> None:
    """Record spans from now on."""
    global _recorder  # noqa: PLW0603 - one for a process, as its log is
    _recorder = recorder


def span(name: str, kind: SpanKind = SpanKind.INTERNAL, facts: Facts = dict) -> AbstractContextManager[Span]:
    """Return a span that lasts as long as the block; see Recorder.

    ``facts`` is called only where spans are recorded.
    """
    return _NO_SPAN if _recorder is None else _recorder.span(name, kind, facts())


def continued(traceparent: str | None) -> AbstractContextManager[None]:
    """See Recorder."""
    return _NOTHING if _recorder is None else _recorder.continued(traceparent)


def current_traceparent() -> str | None:
    """See Recorder; it is kept with a job, so that who runs it goes on with the trace."""
    return None if _recorder is None else _recorder.traceparent()
