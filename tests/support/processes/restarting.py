"""Starts a program again when it is killed: ``restarting.py worker`` (``sweeper``, ``celery``).

A process that has imported everything forks the program; a start then takes milliseconds of CPU, not a second,
which is what lets one test kill it some fifty times. What runs is the real ``main``.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from bulkdeploy.embedded.processes import end_with_parent


def main() -> None:
    """Fork and wait until somebody asks for an end, which is passed on."""
    from workers import app, sweeper

    def celery(*, args: list[str]) -> None:
        sys.exit(app.app.worker_main(["worker", "--pool=solo", "--without-gossip", "--without-mingle", *args]))

    programs: dict[str, Callable[..., Any]] = {"worker": app.main, "sweeper": sweeper.main, "celery": celery}
    program = programs[sys.argv[1]]
    child = 0
    ended = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        del number, frame
        ended = True
        if child:
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    while not ended:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            end_with_parent(signal.SIGKILL)
            program(args=[])
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
            sys.exit(1)


if __name__ == "__main__":
    main()
