"""A WSGI application, as a rule the API, behind a real socket, in a thread of the test process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from werkzeug.serving import make_server

from bulkdeploy.console.calls import Wsgi

STOP_POLL_S = 0.02
"""How often the server looks whether it is to stop: tests wait for that, and its own habit is twice a second."""


@contextmanager
def serving(app: Wsgi) -> Iterator[str]:
    """Serve ``app`` on a free port of the loopback interface; yields its URL."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(STOP_POLL_S,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
