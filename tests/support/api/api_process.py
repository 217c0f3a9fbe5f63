"""The API as one of its processes serves it, websockets included, in a thread of the test process."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from uvicorn.server import Server

from bulkdeploy.api.app import create_app, create_monitoring_app
from bulkdeploy.api.asgi import Applications, ThreadedApplication
from bulkdeploy.api.guest_console import GuestConsoles
from bulkdeploy.console.app import with_console
from bulkdeploy.manage.programs.api_worker import server_config
from bulkdeploy.services.system import System
from bulkdeploy.wiring.settings import Settings


@contextmanager
def api_process(system: System, settings: Settings) -> Iterator[str]:
    """Serve API, console and consoles of guests on a free port, in a thread; yields the URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    ready = threading.Event()
    made: list[Server] = []

    async def serve() -> None:
        consoles = partial(GuestConsoles, system)
        applications = Applications(
            with_console(create_app(system)), create_monitoring_app(system), lambda _: False, consoles
        )
        application = ThreadedApplication(applications, 2)
        made.append(Server(server_config(settings, application, lambda _: False)))
        asyncio.get_running_loop().call_soon(ready.set)
        await made[0].serve(sockets=[listening])

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    made[0].should_exit = True
    thread.join()
