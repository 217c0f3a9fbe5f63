"""The interactive shell: a prompt with history, completion, hints, pasted scripts and pipes."""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.shortcuts import CompleteStyle

from bulkdeploy.cli.command_line import Options, merged, parse
from bulkdeploy.cli.connection import config_file
from bulkdeploy.cli.failures import CommandFailed, ExitStatus, UsageError
from bulkdeploy.cli.output.lines import commands_in, is_open, piped
from bulkdeploy.cli.output.screen import Screen, interrupts_for_the_child
from bulkdeploy.cli.runner import run_options
from bulkdeploy.cli.shell.completion import Completer
from bulkdeploy.cli.shell.shell_input import ApiHints, SecretMask, ShellCompleter, ShellHistory, toolbar
from bulkdeploy.cli.workspace import Workspace

LEAVE = ("exit", "quit")
WELCOME = "Tab completes, -h explains, Ctrl-D leaves"


class Shell:
    """An interactive session at the prompt, or a session that reads lines from standard input."""

    def __init__(self, workspace: Workspace, base: Options) -> None:
        """Create a shell. The options ``base`` apply to every line unless the line overrides them."""
        self.workspace = workspace
        self.completer = Completer(workspace, base)
        self.status = ExitStatus.SUCCESS

    def run(self) -> int:
        """Read and run lines until the end of the input. Returns the exit status of the last command."""
        if not sys.stdin.isatty():
            self._run_lines(commands_in(sys.stdin.read()))
            return self.status
        url = self.workspace.connection(self.completer.base).url
        Screen(None, quiet=self.completer.base.quiet).print_message(f"bulkmonkey at {url}. {WELCOME}")
        session = self._session()
        while True:
            try:
                if not self._run_lines(commands_in(session.prompt(self._prompt))):
                    return self.status
            except KeyboardInterrupt:
                continue
            except EOFError:
                return self.status

    def _run_lines(self, lines: Sequence[str]) -> bool:
        """Run commands one after the other until one fails. Returns False if a command leaves the shell."""
        for position, line in enumerate(lines, start=1):
            if line.split()[0] in LEAVE:
                return False
            self.status = self._run_line(line)
            if self.status != ExitStatus.SUCCESS and position < len(lines):
                left = len(lines) - position
                Screen(None).warn(
                    f"The {left} line{'s' * (left > 1)} after this one {'were' if left > 1 else 'was'} not run"
                )
                break
        return True

    def _run_line(self, line: str) -> ExitStatus:
        command, pipe = piped(line)
        try:
            options = merged(self.completer.base, parse(shlex.split(command)))
        except ValueError as error:
            options, failure = self.completer.base, UsageError(f"cannot read the line: {error}")
            Screen(options.output).fail(failure)
            return failure.status
        except CommandFailed as failure:
            Screen(self.completer.base.output).fail(failure)
            return failure.status
        if options.words[:2] == ("set", "profile") or (
            options.words[:1] == ("profile",) and len(options.words) > 1
        ):
            # From now on the selected profile is used, even if the shell was started with another one.
            self.completer.base = replace(self.completer.base, profile=None)
            options = replace(options, profile=None)
        return self._run_piped(options, pipe) if pipe else run_options(self.workspace, options)

    def _run_piped(self, options: Options, pipe: str) -> ExitStatus:
        """Run a command, and pass its output to the program ``pipe``, which runs in the system's shell."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            stdout, sys.stdout = sys.stdout, output
            try:
                status = run_options(self.workspace, options)
            finally:
                sys.stdout = stdout
            output.flush()
            output.seek(0)
            with interrupts_for_the_child():
                # The user typed this line for the shell.
                done = subprocess.run(pipe, shell=True, stdin=output, check=False)  # noqa: S602
        return ExitStatus.API_ERROR if status == ExitStatus.SUCCESS and done.returncode else status

    def _session(self) -> PromptSession[str]:
        return PromptSession(
            completer=ShellCompleter(self.completer),
            complete_style=CompleteStyle.COLUMN,
            complete_in_thread=True,
            complete_while_typing=False,
            history=ShellHistory(config_file.state_directory() / "history"),
            enable_history_search=True,
            auto_suggest=ApiHints(self.completer),
            input_processors=[SecretMask()],
            multiline=Condition(lambda: is_open(get_app().current_buffer.text)),
            bottom_toolbar=lambda: toolbar(self.completer, get_app().current_buffer.text),
        )

    def _prompt(self) -> StyleAndTextTuples:
        base = self.completer.base
        name = self.workspace.preferences(base).prompt or f"({self.workspace.profile_name(base)}) bulkmonkey"
        return [("bold", name), ("" if self.status == ExitStatus.SUCCESS else "ansired", " > ")]
