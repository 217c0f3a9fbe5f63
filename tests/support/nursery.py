"""Workers and sweepers forked from one process that has imported everything: a start then takes no second of CPU.

What runs is the real ``main``, with the environment and output that a program of its own would have. Programs begun
by their command lines are those of ``up``, of the acceptance tests and of the trial with faults.
"""

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import TimeoutExpired

from bulkdeploy.embedded.processes import end_with_parent

MODULES = ["workers.app", "workers.sweeper"]
PATH = os.environ.get("PYTHONPATH")
_context = multiprocessing.get_context("forkserver")


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether a program with this environment imports the same as we do; a test may give it modules of its own."""
    return environment.get("PYTHONPATH") == PATH


class Forked:
    """A forked program, with what tests use of ``subprocess.Popen``."""

    def __init__(self, module: str, environment: Mapping[str, str], log: Path) -> None:
        log.touch()
        _context.set_forkserver_preload(MODULES)
        self._process: ForkServerProcess = _context.Process(target=_become, args=(module, environment, log))
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


def _become(module: str, environment: Mapping[str, str], log: Path) -> None:
    end_with_parent(signal.SIGKILL)
    os.setpgid(0, 0)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output, stream.fileno())
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module(module).main(args=[])
