"""Child processes that end when the process that started them ends."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1


class ServerFailed(Exception):
    """A server did not start. The text contains the end of its log."""


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """The user id and the group id that a child process runs with."""

    uid: int
    gid: int


def end_with_parent(death_signal: signal.Signals) -> None:
    """Request from the kernel that this process receives ``death_signal`` when the thread that forked it ends.

    This works on Linux only; on other systems the next start stops leftover processes. The function must be called
    in the child after any change of user, because a change of user cancels the request.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)


def spawn(
    arguments: Sequence[str | Path],
    *,
    death_signal: signal.Signals,
    output: IO[bytes] | int | None = None,
    stdin: int = subprocess.DEVNULL,
    account: SystemAccount | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in its own process group. The child receives ``death_signal`` when this process dies.

    Because of the process group, Ctrl-C in a terminal reaches the supervisor only. The function must be called from
    the main thread, because the kernel ties the death signal to the thread that forked.
    """
    parent = os.getpid()

    def prepare() -> None:
        end_with_parent(death_signal)
        if os.getppid() != parent:  # the parent ended before end_with_parent was called
            os._exit(1)

    return subprocess.Popen(  # noqa: S603 - arguments are built by this package
        [os.fspath(argument) for argument in arguments],
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        env=None if environment is None else dict(environment),
        cwd=directory,
        process_group=0,
        preexec_fn=prepare,  # noqa: PLW1509 - runs two system calls, in the main thread
        user=None if account is None else account.uid,
        group=None if account is None else account.gid,
        extra_groups=None if account is None else [],
    )


def stop(process: subprocess.Popen[bytes], stop_signal: signal.Signals, *, patience_seconds: float) -> None:
    """Send ``stop_signal`` to a process, and kill it after ``patience_seconds``. Returns when it has ended."""
    if process.poll() is None:
        process.send_signal(stop_signal)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_seconds)
        return
    process.kill()
    process.wait()
