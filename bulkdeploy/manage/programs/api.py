"""``bulkdeploy api``: the HTTP API, its processes supervised by gunicorn."""

import fcntl
import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from types import FrameType
from typing import Any

import click
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from bulkdeploy.api.asgi import Applications
from bulkdeploy.embedded.processes import end_with_parent
from bulkdeploy.manage.configuration import require, settings_of
from bulkdeploy.wiring.holding import hold_option, wait_for_end_of_input
from bulkdeploy.wiring.settings import Settings

WORKER_CLASS = "bulkdeploy.manage.programs.api_worker.ApiWorker"
"""By name: gunicorn imports it once the figures have their place."""

GRACEFUL_SECONDS = 4
LAST_CALLS_SECONDS = 2
"""With ``shutdown_delay_seconds``: how long after the end of listening the first bytes of a call may still come."""

STUCK_AFTER_SECONDS = 120

SHARED_FIGURES = "PROMETHEUS_MULTIPROC_DIR"
"""Read by prometheus_client when it is imported; so this module does not import it."""

FIGURES = "bulkdeploy-figures-"
LOCK = "lock"


class OneLog(Logger):  # type: ignore[misc] # gunicorn ships no types
    """A gunicorn logger that writes to the same log and in the same format as the rest of the service."""

    def setup(self, cfg: object) -> None:
        """Remove gunicorn's log handlers, so that its messages go to the root logger."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True


class ApiServer(BaseApplication):  # type: ignore[misc] # gunicorn ships no types
    """The gunicorn server of the API. The application is loaded once, before the worker processes are forked."""

    def __init__(self, settings: Settings, *, held: bool = False) -> None:
        self.settings, self._held = settings, held
        super().__init__()

    def load_config(self) -> None:
        """Set the gunicorn options that differ from their defaults."""
        addresses = (self.settings.listen, self.settings.monitoring_listen)
        values: dict[str, Any] = {
            "bind": [address for address in addresses if address is not None],
            "worker_class": WORKER_CLASS,
            "workers": self.settings.api_processes,
            "graceful_timeout": int(self.settings.shutdown_delay_seconds)
            + LAST_CALLS_SECONDS
            + GRACEFUL_SECONDS
            + 2,
            "timeout": STUCK_AFTER_SECONDS,
            "preload_app": True,
            "loglevel": "warning",
            "logger_class": OneLog,
            "proc_name": "bulkdeploy-api",
            "post_fork": after_fork,
            "child_exit": forget_gauges,
            "control_socket_disable": True,
        }
        for name, value in values.items():
            self.cfg.set(name, value)

    def load(self) -> Applications:
        """Build the applications; connections are made on first use, in the forked processes."""
        from bulkdeploy.api.app import create_app, create_monitoring_app
        from bulkdeploy.api.guest_console import GuestConsoles
        from bulkdeploy.api.proxies import TrustedProxies
        from bulkdeploy.console.app import with_console
        from bulkdeploy.wiring.system import build_system

        wait_for_end_of_input(held=self._held)
        system = build_system(self.settings)
        proxies = TrustedProxies(system)
        calls = with_console(create_app(system, proxies=proxies))
        consoles = partial(GuestConsoles, system)
        return Applications(calls, create_monitoring_app(system), proxies.trusts, consoles)


def forget_gauges(server: object, worker: Any) -> None:
    """Remove the gauges of a process that ended. Its counters remain."""
    del server
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def after_fork(server: object, worker: Any) -> None:
    """Make a forked process end with its parent, and exclude shared objects from garbage collection."""
    del server
    end_with_parent(signal.SIGKILL)
    os.nice(worker.app.settings.api_niceness)
    gc.freeze()


def serve(settings: Settings, *, held: bool = False) -> None:
    """Run the API server in this process until SIGTERM. This function does not return.

    If ``held`` is true, the server only loads its code until its standard input is closed.
    """
    from bulkdeploy.wiring.logs import configure_logging

    configure_logging(settings)
    with figures_shared():
        from bulkdeploy.telemetry.metrics import Program
        from bulkdeploy.wiring.tracing import start_tracing

        start_tracing(settings, Program.API)
        ApiServer(settings, held=held).run()


@contextmanager
def figures_shared() -> Iterator[None]:
    """Yield while the environment names a directory in which all processes of this server count metrics together.

    Each server has its own directory, which is deleted when the server ends, or by the next server if it was
    killed. A directory that the environment already names is used and not deleted.
    """
    if SHARED_FIGURES in os.environ:
        yield
        return
    for directory in Path(gettempdir()).glob(f"{FIGURES}*"):
        _remove_if_left(directory)
    owner = os.getpid()
    with _own_directory() as directory:
        os.environ[SHARED_FIGURES] = str(directory)
        signal.signal(signal.SIGTERM, _end)  # until gunicorn handles the signal, after loading
        try:
            yield
        finally:
            if os.getpid() == owner:  # forked processes also run this at their end
                shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _own_directory() -> Iterator[Path]:
    """Yield a new directory with a lock file that the kernel keeps locked while this server runs.

    A process id would not be sufficient: servers in containers can share the directory of temporary files, but they
    do not see each other's processes.
    """
    while True:
        directory = Path(mkdtemp(prefix=f"{FIGURES}{os.getpid()}-"))
        with (directory / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # otherwise another process deleted the unlocked directory as a leftover
            if (directory / LOCK).exists():
                yield directory
                return


def _remove_if_left(directory: Path) -> None:
    with suppress(OSError), (directory / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    sys.exit(0)


@click.command()
@click.option("--listen", help="Address and port, instead of the setting.")
@hold_option
@click.pass_context
def api(ctx: click.Context, listen: str | None, held: bool) -> None:
    """Serve the HTTP API. Run as many as you like behind any proxy."""
    settings = settings_of(ctx, listen=listen)
    require(settings, "database_url", "redis_url")
    serve(settings, held=held)
