"""A program on a real pseudo-terminal, and the screen that a person would see."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

import pyte

from tests.support.runs.waiting import PATIENCE_S


class _AnsweringScreen(pyte.Screen):
    """A screen that answers programs that ask where the cursor is, as terminals do."""

    master: int

    def write_process_input(self, data: str) -> None:
        """Send the terminal's answer to the program."""
        os.write(self.master, data.encode())


class Terminal:
    """Runs a program with a terminal of its own; ``screen`` is what is on it, ``typed`` what came through."""

    def __init__(
        self, program: Sequence[str], environment: Mapping[str, str], *, columns: int = 120, lines: int = 40
    ) -> None:
        self.view = _AnsweringScreen(columns, lines)
        self.stream = pyte.ByteStream(self.view)
        self.output = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execvpe(program[0], list(program), dict(environment))  # noqa: S606
        self.view.master = self.master

    @property
    def screen(self) -> str:
        """The text on the screen, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.view.display).rstrip()

    def send(self, text: str) -> None:
        """Type."""
        os.write(self.master, text.encode())

    def expect(self, text: str, *, times: int = 1) -> str:
        """Read until the text is on the screen (so many times); the screen.

        Raises:
            AssertionError: the program ended, or nothing more came, before it was.
        """
        deadline = time.monotonic() + PATIENCE_S
        while self.screen.count(text) < times:
            if not self._read(deadline) and self.screen.count(text) < times:
                raise AssertionError(f"{text!r} never came; on the screen:\n{self.screen}")
        return self.screen

    def expect_gone(self, text: str) -> None:
        """Read until the text is no longer on the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while text in self.screen:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} stayed; on the screen:\n{self.screen}")

    def expect_idle(self, seconds: float = 0.7) -> None:
        """Read until the program has written nothing for so long."""
        while self._read(time.monotonic() + seconds):
            pass

    def read_for(self, seconds: float) -> None:
        """Take in what the program writes for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._read(deadline):
            pass

    def end(self) -> int:
        """Read until the program has ended; its exit status."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """End the program, if it has not ended."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)

    def _read(self, deadline: float) -> bool:
        """Take in what the program wrote; False if it has ended or time is up."""
        ready, _, _ = select.select([self.master], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            return False
        self.output += data
        self.stream.feed(data)
        return bool(data)
