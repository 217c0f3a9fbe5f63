"""The tracing of this process: whether it is on, and its receiver."""

from bulkdeploy.telemetry.metrics import Program
from bulkdeploy.telemetry.tracing import record_with
from bulkdeploy.wiring.settings import Settings


def start_tracing(settings: Settings, program: Program) -> None:
    """Record and send spans from now on, if ``otlp_endpoint`` says where; what is left is sent as the process ends.

    Once per process, before it forks. A receiver that is away costs spans and lines in the log, nothing else.
    """
    if settings.otlp_endpoint is not None:
        # Imported here alone: who does not trace need not have the packages, nor wait for them.
        from bulkdeploy.wiring.opentelemetry import recorder_to  # noqa: PLC0415

        record_with(recorder_to(settings.otlp_endpoint, f"bulkdeploy-{program}"))
