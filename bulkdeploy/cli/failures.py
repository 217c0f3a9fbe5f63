"""The failures of a bulkmonkey command: one class per cause, each with its exit status.

The texts are shown to users on one line. ``facts`` returns the same information for programs (``-o json``).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

WORTH_REPEATING = frozenset({429, 502, 503, 504})
"""HTTP statuses of failures that may be gone in a moment."""


class ExitStatus(IntEnum):
    """The exit code of a command."""

    SUCCESS = 0
    API_ERROR = 1
    USAGE = 2
    JOBS_FAILED = 3
    TIMED_OUT = 4
    INTERRUPTED = 130


class CommandFailed(Exception):
    """The base class of all failures of bulkmonkey. ``hint`` describes a possible remedy, if one is known."""

    status = ExitStatus.API_ERROR
    label = "Error: "

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message, self.hint = message, hint
        super().__init__(message)

    def line(self) -> str:
        """Return the failure as one line of text."""
        return _one_line(f"{self.label}{self.message}", self.hint)

    def facts(self) -> dict[str, Any]:
        """Return the failure as an object for programs."""
        return {"errortext": " ".join(self.message.split())} | ({"hint": self.hint} if self.hint else {})


class UsageError(CommandFailed):
    """Raised when the command line is invalid. No request that changes anything was sent."""

    status = ExitStatus.USAGE


class ConnectionFailed(CommandFailed):
    """Raised when the API did not respond: no connection, a timeout, or a response that is not CloudStack's.

    ``http_status`` is the status of a response that did not come from the API, or None without a response.
    ``passing`` is true if a retry may succeed.
    """

    def __init__(
        self, message: str, *, hint: str = "", http_status: int | None = None, passing: bool = True
    ) -> None:
        self.http_status, self.passing = http_status, passing
        super().__init__(message, hint=hint)


class ApiRefused(CommandFailed):
    """Raised when the API returns an error (cloudstack-protocol.md 1.6)."""

    def __init__(self, command: str, http_status: int, body: Mapping[str, Any], *, hint: str = "") -> None:
        self.command, self.http_status = command, http_status
        self.errorcode = body.get("errorcode", http_status)
        self.cserrorcode = body.get("cserrorcode")
        self.errortext = str(body.get("errortext") or "no reason given")
        super().__init__(self.errortext, hint=hint)

    @property
    def passing(self) -> bool:
        """Return whether the error is temporary, so that the same request may succeed later."""
        return self.http_status in WORTH_REPEATING

    def line(self) -> str:
        """Return the failure as one line of text with the command and its error codes."""
        code = "" if self.cserrorcode is None else f", code {self.cserrorcode}"
        text = f"{self.label}{self.errortext.rstrip('.')} ({self.command}: HTTP {self.http_status}{code})"
        return _one_line(text, self.hint)

    def facts(self) -> dict[str, Any]:
        """Return the failure as an object for programs."""
        codes = {"command": self.command, "errorcode": self.errorcode, "cserrorcode": self.cserrorcode}
        return {name: value for name, value in codes.items() if value is not None} | super().facts()


class JobFailed(CommandFailed):
    """Raised when the job that the command waited for has failed."""

    status = ExitStatus.JOBS_FAILED

    def __init__(self, job_id: str, result: Mapping[str, Any], *, hint: str = "") -> None:
        self.job_id, self.result = job_id, result
        reason = str(result.get("errortext") or "no reason given").rstrip(".")
        super().__init__(f"job {job_id} failed: {reason} (code {result.get('errorcode', 'unknown')})", hint=hint)

    def facts(self) -> dict[str, Any]:
        """Return the failure as an object for programs."""
        return {"jobid": self.job_id, **self.result} | ({"hint": self.hint} if self.hint else {})


class JobsFailed(CommandFailed):
    """Raised when all jobs of a batch have ended and some of them failed or were cancelled."""

    status = ExitStatus.JOBS_FAILED

    def __init__(self, failed: int, cancelled: int, requested: int, *, hint: str = "") -> None:
        """Create the error. ``failed`` includes the cancelled jobs, as in the API."""
        self.failed, self.cancelled, self.requested = failed, cancelled, requested
        message = f"{failed - cancelled} of {requested} jobs failed"
        if cancelled:
            others = f"{message}, and " if failed > cancelled else ""
            message = f"{others}{cancelled} of {requested} jobs were cancelled"
        super().__init__(message, hint=hint)

    def facts(self) -> dict[str, Any]:
        """Return the failure as an object for programs."""
        return super().facts() | {"failed": self.failed, "cancelled": self.cancelled, "asked": self.requested}


class TimedOut(CommandFailed):
    """Raised when ``--timeout`` has passed while jobs still run. The jobs continue."""

    status = ExitStatus.TIMED_OUT


class Interrupted(CommandFailed):
    """Raised when the user presses Ctrl-C while the program waits. Requested work continues on the server."""

    status = ExitStatus.INTERRUPTED
    label = ""


def _one_line(text: str, hint: str) -> str:
    if hint:
        text = f"{text} {hint}" if text.endswith("?") else f"{text.rstrip('.')}. {hint}"
    return " ".join(text.split())
