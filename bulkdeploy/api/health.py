"""Health of the process, for load balancers and supervisors: it lives, and it can do its work."""

import orjson
import structlog
from flask import Flask, Response

from bulkdeploy.services.system import System
from bulkdeploy.store.availability import is_unreachable, ping

log = structlog.get_logger(__name__)


def add_health(app: Flask, system: System) -> None:
    """Answer ``/health/live`` and ``/health/ready``; both 200 when all is well, the latter else 503."""

    def live() -> Response:
        """The process answers."""
        return _status(200, "live")

    def ready() -> Response:
        """The database answers. Without the courier calls are still taken: their jobs are sent later."""
        try:
            with system.reading.connect() as connection:
                ping(connection)
        except Exception as error:
            if not is_unreachable(error):
                raise
            log.warning("not ready", reason="database")
            return _status(503, "the database cannot be reached")
        return _status(200, "ready")

    app.add_url_rule("/health/live", "live", live)
    app.add_url_rule("/health/ready", "ready", ready)


def _status(code: int, status: str) -> Response:
    return Response(orjson.dumps({"status": status}), code, content_type="application/json")
