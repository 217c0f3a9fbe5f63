"""The baselines of serving: our server and settings, a Flask view that does nothing, and one that asks once."""

from flask import Flask, Response
from psycopg_pool import ConnectionPool

from bulkdeploy.api.asgi import Applications
from bulkdeploy.manage.programs.api import ApiServer
from bulkdeploy.wiring.settings import load_settings

ONE_ROW = "SELECT uuid FROM async_jobs ORDER BY id DESC LIMIT 1"
"""The least that a view which knows nothing by itself asks the database: one row by an index."""


class EmptyServer(ApiServer):
    """Serves the empty view, and below ``/asking`` one that does nothing but ask for one row."""

    def load(self) -> Applications:
        """The application; as in ours, connections are made in the forked processes."""
        app = Flask(__name__, static_folder=None)
        threads = self.settings.api_threads
        url = self.settings.require_database_url()
        pool = ConnectionPool(url, min_size=1, max_size=threads, kwargs={"autocommit": True}, open=False)

        def job_requests() -> Response:
            pool.open()
            with pool.connection() as connection:
                connection.execute(ONE_ROW, prepare=True).fetchone()
            return _nothing()

        for path in ("/client/api", "/health/ready"):
            app.add_url_rule(path, path, _nothing)
        app.add_url_rule("/asking", "asking", job_requests)
        return Applications(app, app)


def _nothing() -> Response:
    return Response(b"{}", 200, content_type="application/json")


if __name__ == "__main__":
    EmptyServer(load_settings()).run()
