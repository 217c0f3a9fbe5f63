"""Starts the tracing of a process."""

from bulkdeploy.telemetry.metrics import Program
from bulkdeploy.telemetry.tracing import record_with
from bulkdeploy.wiring.settings import Settings


def start_tracing(settings: Settings, program: Program) -> None:
    """Record spans and send them to ``otlp_endpoint``, if that setting is set.

    Call this function once per process, before it forks. Remaining spans are sent when the process ends. If the
    receiver cannot be reached, spans are lost and errors are logged; nothing else fails.
    """
    if settings.otlp_endpoint is not None:
        # Imported here, because the packages are optional and slow to import.
        from bulkdeploy.wiring.opentelemetry import recorder_to  # noqa: PLC0415

        record_with(recorder_to(settings.otlp_endpoint, f"bulkdeploy-{program}"))
