"""An executable of CloudStack's Extension protocol, run: ``EXECUTABLE ACTION PAYLOAD.json SECONDS``.

Source: CloudStack 4.21, adminguide/extensions: the exit code decides, what it prints is JSON or nothing. It is run
without a shell, in an environment of PATH and LANG alone, as the leader of its own process group, which is killed
when its time is over or it prints more than MOST_BYTES. The payload, which has secrets, is a file that only its
user reads, and is removed.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import BoundedSemaphore
from typing import IO, Any

MOST_BYTES = 1 << 20
SHOWN_CHARACTERS = 500
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
LOOK_SECONDS = 0.25
REFUSED = ("error", "failed", "failure")
HIDDEN = "****"


class ActionFailed(Exception):
    """An action ended without success; ``unanswered``: it may have been done all the same."""

    def __init__(self, text: str, *, unanswered: bool = False) -> None:
        self.unanswered = unanswered
        super().__init__(text)


class Program:
    """The executable; objects are shared between threads. ``secrets`` are cut out of what it says."""

    def __init__(self, path: Path, *, at_once: int, secrets: Sequence[str]) -> None:
        self.path = path
        self._slots = BoundedSemaphore(at_once)
        self._secrets = [secret for secret in secrets if secret]

    @property
    def is_there(self) -> bool:
        """Whether there is such a program, and this process may run it."""
        return os.access(self.path, os.X_OK)

    def run(self, action: str, payload: Mapping[str, Any], *, timeout_s: float) -> Mapping[str, Any]:
        """Run an action; the object that it printed, or an empty one.

        Raises:
            ActionFailed: it failed, could not be run, took too long, or printed too much or what is no JSON object.
        """
        end = time.monotonic() + timeout_s
        if not self._slots.acquire(timeout=timeout_s):
            raise ActionFailed(
                f"{action}: no turn within {timeout_s:.0f} s, as many actions as allowed are under way"
            )
        try:
            with tempfile.TemporaryDirectory(prefix="bulkdeploy-extension-") as folder:
                file = Path(folder) / "payload.json"
                file.write_text(json.dumps(payload))
                return self._run(action, file, end)
        finally:
            self._slots.release()

    def _run(self, action: str, payload: Path, end: float) -> Mapping[str, Any]:
        left = max(end - time.monotonic(), 1.0)
        command = [str(self.path), action, str(payload), str(int(left))]
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(  # noqa: S603 - what operators name, and no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    env=ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise ActionFailed(f"{action}: {self.path} can not be run: {error.strerror}") from error
            code = _wait(process, action, (output, errors), end)
            printed, complained = _text(output), _text(errors)
        if code != 0:
            said = self._shown(_message(printed) or complained or printed)
            how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise ActionFailed(f"{action}: {how}: {said or 'it said nothing'}", unanswered=code < 0)
        return self._answer(action, printed)

    def _answer(self, action: str, printed: str) -> Mapping[str, Any]:
        if not printed.strip():
            return {}
        try:
            answer = json.loads(printed)
        except ValueError as error:
            raise ActionFailed(
                f"{action}: what it printed is not JSON: {self._shown(printed)}", unanswered=True
            ) from error
        if isinstance(answer, str):
            return {"power_state": answer}  # CloudStack takes a bare word, too
        if not isinstance(answer, dict):
            raise ActionFailed(f"{action}: what it printed is no JSON object", unanswered=True)
        if answer.get("success") is False or str(answer.get("status", "")).lower() in REFUSED:
            raise ActionFailed(f"{action}: {self._shown(_message(printed) or printed)}")
        return answer

    def _shown(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return " ".join(text.split())[:SHOWN_CHARACTERS]


def _wait(process: "subprocess.Popen[bytes]", action: str, files: Sequence[IO[bytes]], end: float) -> int:
    """The exit code; the whole process group is killed where it prints or takes too much."""
    while True:
        try:
            return process.wait(timeout=LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if sum(os.fstat(file.fileno()).st_size for file in files) > MOST_BYTES:
                reason = f"it printed more than {MOST_BYTES} bytes"
            elif time.monotonic() > end:
                reason = "it took too long"
            else:
                continue
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise ActionFailed(f"{action}: {reason}, and was killed", unanswered=True)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_BYTES).decode(errors="replace")


def _message(printed: str) -> str:
    """What an answer says in words, as extensions do in one way or another."""
    try:
        answer = json.loads(printed)
    except ValueError:
        return ""
    if not isinstance(answer, dict):
        return ""
    result = answer.get("result")
    found = answer.get("error") or answer.get("message") or (isinstance(result, dict) and result.get("message"))
    return str(found or "")
