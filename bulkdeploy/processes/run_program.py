"""Runs a program that operators configured: without a shell, with limits, with few environment variables.

The program and its child processes are killed when the timeout has passed, when they print more than MOST_BYTES,
and when this process ends, even if it is killed (docs/adr/0052-programs-end-with-who-runs-them.md).
"""

import fcntl
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

MOST_BYTES = 1 << 20
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
LOOK_SECONDS = 0.25


class ProgramNotRun(Exception):
    """The program could not be started."""


class ProgramKilled(Exception):
    """The program took too long or printed too much, and was killed. It may have done its work before."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """The result of a program that ended by itself or by a signal.

    Attributes:
        code: the exit code, or minus the number of the signal that killed the program.
        printed: the standard output.
        complained: the standard error output.
    """

    code: int
    printed: str
    complained: str

    @property
    def how(self) -> str:
        """The exit code or the signal in words."""
        return f"exit code {self.code}" if self.code > 0 else f"killed by signal {-self.code}"


def run_program(
    command: Sequence[str],
    *,
    timeout_s: float,
    most_bytes: int = MOST_BYTES,
    environment: Mapping[str, str] | None = None,
    given: bytes = b"",
) -> ProgramEnd:
    """Run a program, wait for its end, and return its exit code and its output.

    The command must not contain secrets, because all users of the machine can read command lines.

    Args:
        command: the program and its arguments.
        timeout_s: the seconds after which the program is killed.
        most_bytes: the output after which the program is killed.
        environment: environment variables in addition to ENVIRONMENT; may contain secrets.
        given: the standard input; may contain secrets.

    Raises:
        ProgramNotRun: the program could not be started.
        ProgramKilled: the program took too long or printed too much.
    """
    end = time.monotonic() + timeout_s
    with (
        tempfile.TemporaryFile() as entered,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        _lifeline() as lifeline,
    ):
        entered.write(given)
        entered.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - operators configure the command, and no shell runs it
                command,
                stdin=entered,
                stdout=output,
                stderr=errors,
                env={**ENVIRONMENT, **(environment or {})},
                cwd="/",
                start_new_session=True,
                pass_fds=(lifeline,),
            )
        except OSError as error:
            raise ProgramNotRun(f"{command[0]} cannot be run: {error.strerror}") from error
        _tie(lifeline, process.pid)
        code = _wait(process, (output, errors), end, most_bytes)
        return ProgramEnd(code, _text(output, most_bytes), _text(errors, most_bytes))


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield the reading end of a pipe, which the program inherits.

    Only this process has the writing end, and never writes to it.
    """
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        fcntl.fcntl(reading, fcntl.F_SETOWN, 0)  # processes that the program left behind are not killed
        os.close(writing)
        os.close(reading)


def _tie(lifeline: int, group: int) -> None:
    """Let the kernel kill a process group when this process ends, which closes the writing end of the pipe."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -group)
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _wait(process: "subprocess.Popen[bytes]", files: Sequence[IO[bytes]], end: float, most_bytes: int) -> int:
    """Wait for the end of the program, and return its exit code.

    Raises:
        ProgramKilled: the program printed too much or took too long, and its process group was killed.
    """
    while True:
        try:
            return process.wait(timeout=max(min(LOOK_SECONDS, end - time.monotonic()), 0.001))
        except subprocess.TimeoutExpired:
            if sum(os.fstat(file.fileno()).st_size for file in files) > most_bytes:
                reason = f"it printed more than {most_bytes} bytes"
            elif time.monotonic() > end:
                reason = "it took too long"
            else:
                continue
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise ProgramKilled(f"{reason}, and was killed")


def _text(file: IO[bytes], most_bytes: int) -> str:
    file.seek(0)
    return file.read(most_bytes).decode(errors="replace")
