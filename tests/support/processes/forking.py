"""Programs forked from one process that has imported everything: a start then takes no second of CPU.

What runs is the real ``main``, with the arguments, environment and output that a program of its own would have.
Programs begun by their command lines are those of ``up``, every API server, and those of the trial with faults.
"""

import importlib
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import TimeoutExpired

from bulkdeploy.embedded.processes import end_with_parent
from bulkdeploy.manage.main import COMMANDS

COMMAND = "bulkdeploy.manage.main"
CELERY = "celery"
FORKED_COMMANDS = (
    "worker",
    "sweeper",
    "db",
    "admin",
    "inventory",
    "audit",
    "heal",
    "report",
    "follow",
    "import",
    "simulator",
    "hosts",
    "storage",
    "check",
    "unmanaged",
)
"""Subcommands that may be forked: those that serve no HTTP. An API server imports under its own environment, which
tells the library of their metrics where to count.
"""
IMPORTED = [
    *("workers.app", "workers.sweeper", COMMAND, "celery.bin.celery", "celery.concurrency.prefork"),
    *sorted({COMMANDS[name][0].partition(":")[0] for name in FORKED_COMMANDS}),
]
"""Modules that the process imports before it forks. A module that cannot be imported would be skipped silently, and
each program would spend a second on its imports: tests/processes/test_forking.py imports them all.
"""

PATH = os.environ.get("PYTHONPATH")
_context = multiprocessing.get_context("forkserver")


def can_be_forked(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a command line is of such a program.

    It must import the same as we do: a test may give it modules of its own.
    """
    own = arguments[:1] == ("-m",) and arguments[1:2] in (("workers.app",), ("workers.sweeper",), (CELERY,))
    command = arguments[:2] == ("-m", COMMAND) and arguments[2:3] and arguments[2] in FORKED_COMMANDS
    return bool(own or command) and environment.get("PYTHONPATH") == PATH


class Forked:
    """A forked program, with what tests use of ``subprocess.Popen``."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: Path, errors: Path | None = None
    ) -> None:
        log.touch()
        _context.set_forkserver_preload(IMPORTED)
        self._process: ForkServerProcess = _context.Process(
            target=_become, args=(arguments[1], arguments[2:], environment, log, errors or log)
        )
        self._process.start()
        self.pid = self._process.pid
        self.kill, self.terminate = self._process.kill, self._process.terminate

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended.

        Raises:
            TimeoutExpired: it still runs after so many seconds.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired("a forked program", timeout or 0)
        return self._process.exitcode


def _become(module: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path, errors: Path) -> None:
    end_with_parent(signal.SIGKILL)
    os.setpgid(0, 0)
    for stream, file in ((sys.stdout, log), (sys.stderr, errors)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stream.fileno())
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(environment)
    if module == CELERY:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        importlib.import_module(module).main(args=list(arguments))
