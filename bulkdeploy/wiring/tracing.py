"""The tracing of this process: whether it is on, and its receiver."""

from bulkdeploy.telemetry.metrics import Program
from bulkdeploy.telemetry.tracing import record_with
from bulkdeploy.wiring.settings import Settings


def start_tracing(settings: Settings, program: Program) -> None:
    """Record spans, and send them to ``otlp_endpoint``, if this setting is set. Remaining spans are sent at exit.

    This must be called once per process, before it forks. If the receiver is unreachable, spans are lost and errors
    are logged; nothing else fails.
    """
    if settings.otlp_endpoint is not None:
        # Imported here alone: who does not trace need not have the packages, nor wait for them.
        from bulkdeploy.wiring.opentelemetry import recorder_to  # noqa: PLC0415

        record_with(recorder_to(settings.otlp_endpoint, f"bulkdeploy-{program}"))
