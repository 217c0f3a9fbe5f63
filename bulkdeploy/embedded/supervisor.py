"""A supervisor that starts child processes in stages, restarts those that end, and stops all within seconds.

The supervisor stores nothing. If it is killed, the kernel ends its children (see ``processes.spawn``), and the next
start begins from the beginning.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Any

from bulkdeploy.embedded.processes import ServerFailed, stop

TICK_SECONDS = 0.1
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 15.0
HEALTHY_AFTER_SECONDS = 30.0
LONGEST_LINE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A child process that the supervisor keeps running.

    Attributes:
        name: the name for output lines.
        launch: starts the process; called in the main thread.
        stop_signal: the signal that asks the process to end.
        patience_seconds: the seconds after ``stop_signal`` when the process is killed.
        stage: children of higher stages need those of lower stages, so higher stages are stopped first.
    """

    name: str
    launch: Callable[[], subprocess.Popen[bytes]]
    stop_signal: signal.Signals = signal.SIGTERM
    patience_seconds: float = 5.0
    stage: int = 0


@dataclass(slots=True)
class _Child:
    spec: ChildSpec
    process: subprocess.Popen[bytes]
    started: float
    pause: float = FIRST_PAUSE_SECONDS
    restart_at: float | None = None
    rest: bytes = field(default=b"")


class Supervisor:
    """Keeps child processes running until ``request_stop`` or a signal.

    ``emit`` is called with a child's name for each line that the child prints.
    """

    def __init__(self, emit: Callable[[str, str], None]) -> None:
        self._emit = emit
        self._children: list[_Child] = []
        self._selector = selectors.DefaultSelector()
        self._stop_requests = 0

    def start(self, spec: ChildSpec) -> subprocess.Popen[bytes]:
        """Start a child, keep it running from now on, and return its first process."""
        child = _Child(spec, spec.launch(), time.monotonic())
        self._children.append(child)
        self._watch(child)
        return child.process

    def adopt(self, spec: ChildSpec, process: subprocess.Popen[bytes]) -> None:
        """Keep running a child that is already started as ``process``."""
        child = _Child(spec, process, time.monotonic())
        self._children.append(child)
        self._watch(child)

    def catch_signals(self) -> None:
        """Call ``request_stop`` at SIGINT, SIGTERM and SIGHUP."""

        def on_signal(number: int, frame: FrameType | None) -> None:
            del number, frame
            self.request_stop()

        for wanted in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(wanted, on_signal)

    def request_stop(self) -> None:
        """Make ``run`` return. After a second request, ``stop`` kills the children at once."""
        self._stop_requests += 1

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was requested."""
        return self._stop_requests > 0

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Forward the output of the children and restart children that died.

        Returns when a stop is requested or ``until`` returns True.
        """
        while not self.stop_requested and not (until is not None and until()):
            self._turn()

    def pids(self) -> dict[str, int]:
        """Return the process ids of the running children by name."""
        return {child.spec.name: child.process.pid for child in self._children if child.process.poll() is None}

    def stop(self) -> None:
        """Stop all children, one stage after the other from the highest. Returns when all have ended."""
        for stage in sorted({child.spec.stage for child in self._children}, reverse=True):
            self._stop_together([child for child in self._children if child.spec.stage == stage])
        self._children.clear()
        self._selector.close()

    def _stop_together(self, stage: Sequence[_Child]) -> None:
        for child in stage:
            if child.process.poll() is None:
                child.process.send_signal(child.spec.stop_signal)
        patience = max(child.spec.patience_seconds for child in stage)
        deadline = time.monotonic() + patience
        while any(child.process.poll() is None for child in stage):
            if time.monotonic() > deadline or self._stop_requests > 1:
                break
            self._read(TICK_SECONDS / 4)
        for child in stage:
            stop(child.process, signal.SIGKILL, patience_seconds=1.0)
            self._drain(child)

    def _turn(self) -> None:
        self._read(TICK_SECONDS)
        now = time.monotonic()
        for child in self._children:
            if child.restart_at is not None:
                if now >= child.restart_at:
                    self._restart(child)
            elif (code := child.process.poll()) is not None:
                self._drain(child)
                child.pause = FIRST_PAUSE_SECONDS if now - child.started > HEALTHY_AFTER_SECONDS else child.pause
                self._emit(child.spec.name, f"ended ({_describe(code)}); starting it again in {child.pause:.1f} s")
                child.restart_at = now + child.pause
                child.pause = min(child.pause * 2, LONGEST_PAUSE_SECONDS)

    def _restart(self, child: _Child) -> None:
        child.started = time.monotonic()
        try:
            child.process = child.spec.launch()
        except (OSError, ServerFailed) as error:
            self._emit(child.spec.name, f"did not start: {error}; trying again in {child.pause:.1f} s")
            child.restart_at = child.started + child.pause
            child.pause = min(child.pause * 2, LONGEST_PAUSE_SECONDS)
            return
        child.restart_at = None
        self._watch(child)

    def _watch(self, child: _Child) -> None:
        if child.process.stdout is not None:
            os.set_blocking(child.process.stdout.fileno(), False)
            self._selector.register(child.process.stdout, selectors.EVENT_READ, child)

    def _read(self, seconds: float) -> None:
        if not self._selector.get_map():
            time.sleep(seconds)
            return
        for key, _ in self._selector.select(seconds):
            self._forward(key.data, _pipe(key.fileobj))

    def _forward(self, child: _Child, pipe: IO[bytes]) -> bool:
        """Pass available output of a child to ``emit``.

        Returns False if there is no output now or the child has closed its output.
        """
        try:
            data = os.read(pipe.fileno(), LONGEST_LINE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close(child, pipe)
            return False
        *lines, child.rest = (child.rest + data).split(b"\n")
        if len(child.rest) > LONGEST_LINE_BYTES:
            lines, child.rest = [*lines, child.rest], b""
        for line in lines:
            self._emit(child.spec.name, line.decode(errors="replace"))
        return True

    def _drain(self, child: _Child) -> None:
        """Pass the remaining output of a child that has ended to ``emit``, and close the pipe."""
        pipe = child.process.stdout
        if pipe is None or pipe.closed:
            return
        while not pipe.closed and self._forward(child, pipe):
            pass
        if not pipe.closed:
            self._close(child, pipe)

    def _close(self, child: _Child, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        pipe.close()
        if child.rest:
            self._emit(child.spec.name, child.rest.decode(errors="replace"))
            child.rest = b""


def _pipe(fileobj: Any) -> IO[bytes]:
    pipe: IO[bytes] = fileobj
    return pipe


def _describe(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
