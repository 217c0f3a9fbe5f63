"""An API that falls silent in the midst of calls, and speaks again when it is told to."""

from collections.abc import Callable, Iterable
from threading import Event
from typing import Any
from urllib.parse import parse_qs

from bulkdeploy.console.calls import Wsgi
from tests.support.runs.waiting import PATIENCE_S


class SilentApi:
    """Stands before an application: calls of one command wait.

    Attributes:
        command: the command whose calls wait from now on; None: none.
    """

    def __init__(self) -> None:
        self.command: str | None = None
        self._reached, self._speaks = Event(), Event()

    def before(self, app: Wsgi) -> Wsgi:
        """The application, behind this."""

        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if self.command in parse_qs(environ.get("QUERY_STRING", "")).get("command", ()):
                self._reached.set()
                self._speaks.wait(PATIENCE_S)
            return app(environ, start)

        return answer

    def fall_silent(self, command: str) -> None:
        """Let calls of this command wait from now on."""
        self._reached.clear()
        self._speaks.clear()
        self.command = command

    def wait_until_called(self) -> None:
        """Return when a call waits."""
        assert self._reached.wait(PATIENCE_S), self.command

    def speak(self) -> None:
        """Answer what waits, and all that comes."""
        self.command = None
        self._speaks.set()
