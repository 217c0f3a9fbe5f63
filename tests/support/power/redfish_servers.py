"""Management controllers with Redfish: the emulator of sushy-tools, with servers of our own behind it.

What happens to a server is a function of the test: it may switch real processes, do nothing, or hang.
"""

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import bcrypt
import flask
from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems.base import AbstractSystemsDriver
from sushy_tools.error import NotFound
from werkzeug.serving import WSGIRequestHandler, make_server

USER, PASSWORD = "admin", "fence-me"
SERVERS = "tests.servers"
"""Key of a request's environment: the servers behind the controller that it went to."""


@dataclass
class Server:
    """A server behind a controller.

    Attributes:
        is_on: whether it has power.
        switch: is called with whether to switch it on; None: only ``is_on`` changes.
        ignores: whether requests are accepted and nothing is done.
        lies: the power state that is reported instead of the true one.
        stall: is waited for before every report of the power state.
        requests: the types of resets that were requested.
    """

    is_on: bool = True
    switch: Callable[[bool], None] | None = None
    ignores: bool = False
    lies: str | None = None
    stall: threading.Event | None = None
    requests: list[str] = field(default_factory=list)

    def report(self) -> str:
        """Return the power state in Redfish's words."""
        if self.stall is not None:
            self.stall.wait(30)
        return self.lies or ("On" if self.is_on else "Off")

    def reset(self, kind: str) -> None:
        """Do what a type of reset says."""
        self.requests.append(kind)
        if self.ignores:
            return
        if "Restart" in kind or "Cycle" in kind:
            self._set(is_on=False)
        self._set(is_on=kind not in ("ForceOff", "GracefulShutdown"))

    def _set(self, *, is_on: bool) -> None:
        if self.switch is not None:
            self.switch(is_on)
        self.is_on = is_on


class Servers(AbstractSystemsDriver):  # type: ignore[misc]
    """The systems of the controller that the current request went to, by name."""

    @property
    def _servers(self) -> Mapping[str, Server]:
        found: Mapping[str, Server] = flask.request.environ[SERVERS]
        return found

    @property
    def driver(self) -> str:
        """The driver's name."""
        return "<servers>"

    @property
    def systems(self) -> list[str]:
        """The names of all systems."""
        return list(self._servers)

    def uuid(self, identity: str) -> str:
        """The id of a system, which is its name."""
        return self.name(identity)

    def name(self, identity: str) -> str:
        """The name of a system."""
        if identity not in self._servers:
            raise NotFound(f"there is no system {identity}")
        return identity

    def get_power_state(self, identity: str) -> str:
        """The power state."""
        return self._servers[identity].report()

    def set_power_state(self, identity: str, state: str) -> None:
        """Reset a system."""
        self._servers[identity].reset(state)

    def get_boot_device(self, identity: str) -> str:
        """The boot device, which does not matter."""
        del identity
        return "Hdd"

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        """Do nothing."""


class Emulator(main.Application):  # type: ignore[misc]
    """sushy-tools' emulator, whose systems are those of the controller that is asked."""

    @property
    def systems(self) -> Any:
        """The systems."""
        return Servers()


@cache
def _emulator() -> Any:
    """The emulator, which a process has once, with one user."""
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4, prefix=b"2b")).decode()
    users = Path(mkdtemp(prefix="redfish-")) / "users"
    users.write_text(f"{USER}:{hashed}\n")
    main.app.__class__ = Emulator
    given = {"SUSHY_EMULATOR_AUTH_FILE": str(users), "SUSHY_EMULATOR_FEATURE_SET": "minimum"}
    main.app.configure(extra_config=given)
    return main.app


class SilentHandler(WSGIRequestHandler):
    """A handler of requests that logs errors only."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


@contextmanager
def redfish(servers: Mapping[str, Server], tls: tuple[Path, Path] | None = None, port: int = 0) -> Iterator[int]:
    """Serve a controller on the loopback interface; its port. ``tls``: files of its certificate and key."""
    emulator = _emulator()

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        return emulator({**environ, SERVERS: servers}, start_response)

    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    server = make_server(
        "127.0.0.1", port, application, threaded=True, ssl_context=context, request_handler=SilentHandler
    )
    server.daemon_threads = True  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
