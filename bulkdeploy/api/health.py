"""The readiness check of a process, for load balancers. The liveness check is in ``api.asgi``."""

import orjson
import structlog
from flask import Flask, Response

from bulkdeploy.services.system import System
from bulkdeploy.store.database.availability import is_unreachable, ping
from bulkdeploy.store.migrations.revisions import SchemaMismatch

UNREACHABLE = "the database cannot be reached"

log = structlog.get_logger(__name__)


def add_health(app: Flask, system: System) -> None:
    """Add the path ``/health/ready``.

    The response has status 200 if the database can be reached and has the right schema, otherwise 503.
    """

    def ready() -> Response:
        """Respond whether the database can be reached.

        Redis is not checked, because calls are accepted without Redis; the jobs are sent to workers later.
        """
        try:
            with system.reading.connect() as connection:
                ping(connection)
        except Exception as error:
            if not is_unreachable(error):
                raise
            wrong_schema = isinstance(error, SchemaMismatch)
            log.warning("not_ready", reason="schema" if wrong_schema else "database")
            return _status(503, str(error) if wrong_schema else UNREACHABLE)
        return _status(200, "ready")

    app.add_url_rule("/health/ready", "ready", ready)


def _status(code: int, status: str) -> Response:
    return Response(orjson.dumps({"status": status}), code, content_type="application/json")
