"""The output of commands: results go to standard output, everything else to standard error.

On a terminal, responses are coloured tables (or the format that ``-o`` names), and long output is shown in a pager.
Elsewhere, output is plain and does not depend on the environment.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import ASCII
from rich.console import Console, RenderableType
from rich.json import JSON
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.concealment import without_secrets
from bulkdeploy.cli.failures import CommandFailed
from bulkdeploy.cli.output.answers import as_rows, filtered
from bulkdeploy.cli.output.formats import printable, rendered
from bulkdeploy.cli.output.tables import table_of

PLAIN_WIDTH = 200


class Screen:
    """The two output streams of one command.

    If ``output`` is None, results are printed as a table on a terminal and as JSON elsewhere.
    """

    def __init__(
        self, output: str | None, *, quiet: bool = False, reveal: bool = False, pager: bool = True
    ) -> None:
        self.output, self.quiet, self.reveal, self.pager = output, quiet, reveal, pager
        self.terminal = sys.stdout.isatty()
        self.out = Console(width=None if self.terminal else PLAIN_WIDTH, highlight=False, soft_wrap=False)
        self.err = Console(stderr=True, width=None if sys.stderr.isatty() else PLAIN_WIDTH, highlight=False)

    @property
    def format(self) -> str:
        """The present output format."""
        return self.output or ("table" if self.terminal else "json")

    def show(self, answer: Mapping[str, Any], fields: Sequence[str] = ()) -> None:
        """Print a response. On a terminal, secrets are hidden unless the user has requested them."""
        if not self.terminal:
            sys.stdout.write(rendered(answer, self.format, fields))
            return
        seen = answer if self.reveal else without_secrets(answer)
        if seen != answer:
            self.print_message(
                "secrets are hidden: --reveal shows them, and so does any output that is not a terminal"
            )
        if self.format == "table":
            self.render(table_of(as_rows(seen, fields), self.out.width, chosen=bool(fields)))
        elif self.format == "json":
            shown = filtered(seen, fields)
            if shown:
                self.render(JSON.from_data(shown, ensure_ascii=False))
        else:
            self.render(Text(rendered(seen, self.format, fields).rstrip("\n")))

    def render(self, *parts: RenderableType) -> None:
        """Print objects of the library rich, in a pager if they are longer than the terminal."""
        if not self.terminal:
            self._print(self.out, parts)
            return
        with self.out.capture() as capture:
            self.out.print(*parts, sep="\n", crop=False)
        text = capture.get()
        if not (self.pager and text.count("\n") >= self.out.height and self._paged(text)):
            sys.stdout.write(text)
            sys.stdout.flush()

    def report(self, *parts: RenderableType) -> None:
        """Print additional information on standard error, unless output is reduced by ``--quiet``."""
        if not self.quiet:
            self._print(self.err, parts)

    def print_message(self, text: str) -> None:
        """Print a message on standard error, unless output is reduced by ``--quiet``."""
        if not self.quiet:
            self.err.print(Text(printable(text), style="dim"), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        self.err.print(Text(printable(text), style="yellow"), soft_wrap=True)

    def fail(self, failure: CommandFailed) -> None:
        """Print a failure on standard error: as one line, or as JSON if the output format is JSON."""
        if self.output == "json":
            print(json.dumps(failure.facts(), ensure_ascii=False), file=sys.stderr)  # noqa: T201 - for programs
        else:
            style = "red" if failure.label else "yellow"
            self.err.print(Text(printable(failure.line()), style=style), soft_wrap=True)

    @staticmethod
    def _print(console: Console, parts: Sequence[RenderableType]) -> None:
        """Print on a stream. If the stream is not a terminal, boxes are ASCII and trailing blanks are removed."""
        if console.is_terminal:
            console.print(*parts, sep="\n")
            return
        for part in parts:
            if isinstance(part, Table) and part.box is not None:
                part.box = ASCII
        with console.capture() as capture:
            console.print(*parts, sep="\n")
        console.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))
        console.file.flush()

    def _paged(self, text: str) -> bool:
        """Show a text in the user's pager, and return whether this was possible."""
        command = os.environ.get("PAGER") or shutil.which("less") or ""
        if not command:
            return False
        environment = {"LESS": "FRX"} | os.environ
        with interrupts_for_the_child():
            # The user chose the pager, in the environment.
            done = subprocess.run(command, shell=True, input=text.encode(), env=environment, check=False)  # noqa: S602
        return done.returncode == 0


@contextmanager
def interrupts_for_the_child() -> Iterator[None]:
    """Ignore Ctrl-C until the block ends, because a child process in the foreground handles Ctrl-C itself."""
    # A handler and not SIG_IGN, because child processes do not inherit handlers.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
