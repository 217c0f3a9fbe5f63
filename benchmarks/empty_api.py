"""The baseline of serving: our gunicorn with our settings, and a Flask view that does nothing."""

from typing import Any

from flask import Flask, Response

from bulkdeploy.manage.api import ApiServer
from bulkdeploy.wiring.settings import load_settings


class EmptyServer(ApiServer):
    """Serves the empty view."""

    def load(self) -> Any:
        """The application."""
        app = Flask(__name__, static_folder=None)
        for path in ("/client/api", "/health/ready"):
            app.add_url_rule(path, path, lambda: Response(b"{}", 200, content_type="application/json"))
        return app


if __name__ == "__main__":
    EmptyServer(load_settings()).run()
