"""The destination and the format of log lines, for this service and for libraries."""

import logging
import sys
import threading
from types import TracebackType

import structlog

from bulkdeploy.telemetry.request_id import current_request
from bulkdeploy.telemetry.tracing import current_traceparent
from bulkdeploy.wiring.settings import Settings

NOISY = ("celery", "kombu", "amqp", "redis", "sqlalchemy", "psycopg")
"""Libraries whose log lines at INFO are left out: one per task or statement, which costs much CPU time."""


def configure_logging(settings: Settings) -> None:
    """Log to standard error with the settings ``log_level`` and ``log_format``.

    Each process calls this function once, at its start.
    """
    level = logging.getLevelNamesMapping()[settings.log_level]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _with_request,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    as_json = settings.log_format == "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([structlog.processors.format_exc_info] if as_json else []),
                structlog.processors.JSONRenderer()
                if as_json
                else structlog.dev.ConsoleRenderer(
                    colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
                ),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)
    sys.excepthook = _log_what_ends_the_process
    threading.excepthook = _log_what_ends_a_thread
    for name in NOISY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def _with_request(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    del logger, method
    request_id = current_request()
    if request_id is not None:
        event["request"] = request_id
    traceparent = current_traceparent()
    if traceparent is not None:
        event["trace"] = traceparent.split("-")[1]
    return event


def _log_what_ends_the_process(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        logging.getLogger(__name__).critical("process_failed", exc_info=(kind, error, traceback))


def _log_what_ends_a_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and failed.exc_type is not SystemExit:
        logging.getLogger(__name__).critical(
            "thread_failed", exc_info=(failed.exc_type, failed.exc_value, failed.exc_traceback)
        )
