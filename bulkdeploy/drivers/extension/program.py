"""The execution of an action of the Extension protocol: ``EXECUTABLE ACTION PAYLOAD.json SECONDS``.

Source: CloudStack 4.21, adminguide/extensions. The exit code decides whether the action succeeded. The output is
JSON or empty. ``run_program`` runs the executable. The payload, which contains secrets, is a file that only its
user can read and that is deleted afterwards.
"""

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from bulkdeploy.processes.run_program import ProgramKilled, ProgramNotRun, run_program

SHOWN_CHARACTERS = 500
REFUSED = ("error", "failed", "failure")
HIDDEN = "****"

READ = ("prepare", "status", "statuses", "activity", "getconsole")
"""The actions whose output is parsed as JSON.

``status`` may also print a bare word.

Other actions may print plain text, because only their exit code counts, as in CloudStack.
"""


class ActionFailed(Exception):
    """Raised when an action fails. With ``unanswered``, the action may have taken effect nevertheless."""

    def __init__(self, text: str, *, unanswered: bool = False) -> None:
        self.unanswered = unanswered
        super().__init__(text)


class Program:
    """The executable of an extension, which threads may share.

    ``secrets`` are removed from its output.

    At most ``at_once`` actions run at the same time.
    """

    def __init__(self, path: Path, *, at_once: int, secrets: Sequence[str]) -> None:
        self.path = path
        self._slots = BoundedSemaphore(at_once)
        self._secrets = [secret for secret in secrets if secret]

    @property
    def is_there(self) -> bool:
        """True if the executable exists and this process may run it."""
        return os.access(self.path, os.X_OK)

    def run(self, action: str, payload: Mapping[str, Any], *, timeout_s: float) -> Mapping[str, Any]:
        """Run an action, and return the JSON object that the action printed, or an empty object.

        Raises:
            ActionFailed: the action failed, could not be run or took too long, or its output is too long or not a
                JSON object.
        """
        return self._answer(action, self._print(action, payload, timeout_s))

    def print(self, action: str, payload: Mapping[str, Any], *, timeout_s: float) -> str:
        """Run an action, and return its output without secrets.

        Raises:
            ActionFailed: the action failed, could not be run, took too long, or printed too much.
        """
        return self._without_secrets(self._print(action, payload, timeout_s).strip())

    def _print(self, action: str, payload: Mapping[str, Any], timeout_s: float) -> str:
        end = time.monotonic() + timeout_s
        if not self._slots.acquire(timeout=timeout_s):
            raise ActionFailed(
                f"{action}: not started within {timeout_s:.0f} s, because the allowed number of actions is running"
            )
        try:
            with tempfile.TemporaryDirectory(prefix="bulkdeploy-extension-") as folder:
                file = Path(folder) / "payload.json"
                file.write_text(json.dumps(payload))
                return self._run(action, file, end)
        finally:
            self._slots.release()

    def _run(self, action: str, payload: Path, end: float) -> str:
        left = max(end - time.monotonic(), 1.0)
        command = [str(self.path), action, str(payload), str(int(left))]
        try:
            ended = run_program(command, timeout_s=left)
        except ProgramNotRun as error:
            raise ActionFailed(f"{action}: {error}") from error
        except ProgramKilled as error:
            raise ActionFailed(f"{action}: {error}", unanswered=True) from error
        if ended.code != 0:
            said = self._shown(_message(ended.printed) or ended.complained or ended.printed)
            raise ActionFailed(f"{action}: {ended.how}: {said or 'no output'}", unanswered=ended.code < 0)
        return ended.printed

    def _answer(self, action: str, printed: str) -> Mapping[str, Any]:
        if not printed.strip():
            return {}
        try:
            answer = json.loads(printed)
        except ValueError as error:
            if action == "status":
                return {"power_state": printed.strip()}
            if action not in READ:
                return {}
            raise ActionFailed(
                f"{action}: the output is not JSON: {self._shown(printed)}", unanswered=True
            ) from error
        if isinstance(answer, str) and action == "status":
            return {"power_state": answer}
        if not isinstance(answer, dict) and action not in READ:
            return {}
        if not isinstance(answer, dict):
            raise ActionFailed(f"{action}: the output is not a JSON object", unanswered=True)
        if answer.get("success") is False or str(answer.get("status", "")).lower() in REFUSED:
            raise ActionFailed(f"{action}: {self._shown(_message(printed) or printed)}")
        return answer

    def _shown(self, text: str) -> str:
        return " ".join(self._without_secrets(text).split())[:SHOWN_CHARACTERS]

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text


def _message(printed: str) -> str:
    """Return the error message in an action's JSON output, or an empty text if it contains none."""
    try:
        answer = json.loads(printed)
    except ValueError:
        return ""
    if not isinstance(answer, dict):
        return ""
    result = answer.get("result")
    found = answer.get("error") or answer.get("message") or (isinstance(result, dict) and result.get("message"))
    return str(found or "")
