"""The whole service on one machine: all programs, and embedded servers if no others are configured.

``up`` and ``demo`` run the service in this way. The programs are started first and wait (``wiring.holding``), so
that they load while the servers start and the database is prepared. The programs are also stopped first.
"""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

from bulkdeploy.embedded.postgres import PostgresServer
from bulkdeploy.embedded.processes import ServerFailed, spawn
from bulkdeploy.embedded.supervisor import ChildSpec, Supervisor
from bulkdeploy.embedded.valkey import ValkeyServer
from bulkdeploy.manage.programs.programs import API, SWEEPER, WORKER, command_line, environment
from bulkdeploy.wiring.settings import Settings

DATABASE = "bulkdeploy"
SERVERS, PROGRAMS = 0, 1
"""Stages of the supervisor."""

STOPPING = {"postgres": (signal.SIGINT, 3.0), "valkey": (signal.SIGTERM, 2.0)}
"""How the servers are asked to end, and how long they are waited for, in seconds."""

SERVER_SECONDS = 600.0
READY_SECONDS = 900.0
"""How long servers, and then the API, are waited for. A loaded machine takes minutes; a failure ends sooner."""

NOTICE_SECONDS = 30.0
"""A line about what is waited for is written this often."""

PORT_SECONDS = 5.0


class NotReady(ServerFailed):
    """Raised when the API did not become ready in time."""


class Stack:
    """The processes of the service on this machine, with their supervisor.

    ``settings`` contains the addresses of all servers after ``start`` has returned. Hypervisors are simulated
    unless the settings name drivers.
    """

    def __init__(self, settings: Settings, emit: Callable[[str, str], None]) -> None:
        watched = settings.monitoring_listen
        self.settings = settings.with_simulator().model_copy(
            update={
                "data_dir": settings.data_dir.absolute(),
                "listen": self._address(settings, emit),
                "monitoring_listen": None if watched is None else _free_address(watched),
            }
        )
        self.supervisor = Supervisor(emit)
        self._emit = emit
        self._stdin = subprocess.DEVNULL
        self._holding: int | None = None

    @staticmethod
    def _address(settings: Settings, emit: Callable[[str, str], None]) -> str:
        """Return the address of the API.

        If the default address is in use and no address was configured, an address with a free port is returned.

        Raises:
            ServerFailed: the configured address cannot be used.
        """
        try:
            return _free_address(settings.listen)
        except ServerFailed as error:
            if "listen" in settings.model_fields_set:
                raise ServerFailed(
                    f"{error}. Set another address with --listen HOST:PORT; port 0 selects a free port"
                ) from error
            host, _, _ = settings.listen.rpartition(":")
            emit("up", f"{error}; another port is used, which --listen HOST:PORT would choose")
            return _free_address(f"{host}:0")

    @property
    def url(self) -> str:
        """The URL of the API for clients on this machine."""
        return self.settings.url

    def start(self, prepare: Callable[[Settings], None]) -> None:
        """Start all servers and programs.

        The programs begin to work after ``prepare`` has migrated and filled the database.

        Raises:
            ServerFailed: a server did not start. ``stop`` must be called to end the other processes.
        """
        servers = self._own_servers()
        self._start_programs()
        self._start_servers(servers)
        if not self.supervisor.stop_requested:
            prepare(self.settings)
        if not self.supervisor.stop_requested:
            self._start_waiting_programs()

    def wait_until_ready(self, is_ours: Callable[[], bool] = lambda: True) -> None:
        """Supervise the children until the service is ready or a stop is requested.

        The service is ready if /health/ready returns 200 and ``is_ours`` returns True. ``is_ours`` returns whether
        the API at the address belongs to this stack: another program may have started to use the port since it was
        found free.

        Raises:
            NotReady: the service was not ready within READY_SECONDS.
        """
        began = noticed = time.monotonic()
        ready = f"{self.settings.api_monitoring_url}/health/ready"

        def done() -> bool:
            nonlocal noticed
            now = time.monotonic()
            if now - began > READY_SECONDS:
                raise NotReady(f"{ready} did not answer for this service within {READY_SECONDS:.0f} s")
            if now - noticed > NOTICE_SECONDS:
                noticed = now
                self._emit("up", f"waiting for {ready}")
            return _answers(ready) and is_ours()

        self.supervisor.run(until=done)

    def stop(self) -> None:
        """Stop all child processes."""
        self.supervisor.stop()
        self._start_waiting_programs()

    def _own_servers(self) -> dict[str, PostgresServer | ValkeyServer]:
        """Return the embedded servers that are needed because the settings name none.

        Their URLs are added to the settings.
        """
        logs = self.settings.data_dir / "logs"
        servers: dict[str, PostgresServer | ValkeyServer] = {}
        if self.settings.database_url is None:
            servers["postgres"] = postgres = PostgresServer(
                self.settings.data_dir / "postgres", logs / "postgres.log"
            )
            self.settings = self.settings.model_copy(update={"database_url": postgres.url(DATABASE)})
        if self.settings.redis_url is None:
            servers["valkey"] = valkey = ValkeyServer(logs / "valkey.log")
            self.settings = self.settings.model_copy(update={"redis_url": valkey.url()})
        return servers

    def _start_servers(self, servers: Mapping[str, PostgresServer | ValkeyServer]) -> None:
        """Start the database and message broker, and wait until they respond or a stop is requested.

        Raises:
            ServerFailed: a server did not respond within SERVER_SECONDS.
        """
        for name, server in servers.items():
            if self.supervisor.stop_requested:
                return
            stop_signal, patience_s = STOPPING[name]
            self.supervisor.start(ChildSpec(name, server.launch, stop_signal, patience_s, SERVERS))
        # the import takes as long as the start of the servers
        from bulkdeploy.store.database.database import ensure_database

        deadline = time.monotonic() + SERVER_SECONDS
        waiting = list(servers.values())

        def done() -> bool:
            waiting[:] = [server for server in waiting if not server.is_ready()]
            if waiting and time.monotonic() > deadline:
                raise ServerFailed(
                    f"The embedded servers were not ready in {SERVER_SECONDS:.0f} s; "
                    f"see {self.settings.data_dir / 'logs'}"
                )
            return not waiting

        self.supervisor.run(until=done)
        postgres = servers.get("postgres")
        if isinstance(postgres, PostgresServer) and not waiting:
            ensure_database(postgres.url(), DATABASE)

    def _start_programs(self) -> None:
        """Start all programs with a shared standard input.

        They load, and start to work when the input is closed.
        """
        self._stdin, self._holding = os.pipe()
        self._start_program("api", API, self.settings)
        workers = self.settings.worker_processes
        for number in range(1, workers + 1):
            self._start_program(f"worker-{number}", WORKER, _monitored(self.settings, number))
        self._start_program("sweeper", SWEEPER, _monitored(self.settings, workers + 1))

    def _start_waiting_programs(self) -> None:
        """Close the shared standard input, so that waiting programs start to work.

        Programs restarted later do not wait.
        """
        if self._holding is not None:
            os.close(self._holding)
            os.close(self._stdin)
            self._stdin, self._holding = subprocess.DEVNULL, None

    def _start_program(self, name: str, program: tuple[str, ...], settings: Settings) -> None:
        variables = environment(settings, dict(os.environ))

        def launch() -> subprocess.Popen[bytes]:
            return spawn(
                command_line((*program, "--hold")),
                death_signal=signal.SIGKILL,
                output=subprocess.PIPE,
                stdin=self._stdin,
                environment=variables,
            )

        self.supervisor.start(ChildSpec(name, launch, stage=PROGRAMS))


def _monitored(settings: Settings, number: int) -> Settings:
    """Return the settings of program ``number``: its monitoring port is the configured port plus ``number``."""
    if settings.monitoring_listen is None:
        return settings
    host, _, port = settings.monitoring_listen.rpartition(":")
    return settings.model_copy(update={"monitoring_listen": f"{host}:{int(port) + number}"})


def _free_address(listen: str) -> str:
    """Return ``listen`` with a free port instead of port 0.

    If another process uses the address, the function waits at most PORT_SECONDS for the address to become free.

    Raises:
        ServerFailed: the address is still in use, or this machine or user cannot listen on it.
    """
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    deadline = time.monotonic() + PORT_SECONDS
    while True:
        try:
            with socket.create_server((host.strip("[]"), int(port)), family=family) as probe:
                return f"{host}:{probe.getsockname()[1]}"
        except OSError as error:
            if time.monotonic() > deadline:
                raise ServerFailed(f"Cannot listen on {listen}: {error.strerror or error}") from error
            time.sleep(0.1)  # the API of a killed `up` may still be running


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own http URL
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
