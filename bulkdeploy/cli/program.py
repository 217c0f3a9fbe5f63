"""The ways to run the program: one command line, the shell, or an answer to a completion script."""

import sys
from collections.abc import Mapping, Sequence

from bulkdeploy.cli.command_line import parse
from bulkdeploy.cli.completion import Completer
from bulkdeploy.cli.failures import CommandFailed, ExitStatus
from bulkdeploy.cli.lines import words_before
from bulkdeploy.cli.runner import run
from bulkdeploy.cli.screen import Screen
from bulkdeploy.cli.transport import SystemClock
from bulkdeploy.cli.workspace import Workspace

LINE = "--line"


def one_shot(environment: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Run one command line, or the shell if it has no words; the exit status."""
    workspace = _workspace(environment)
    try:
        options = parse(arguments)
        if not (options.words or options.help or options.version):
            from bulkdeploy.cli.shell import Shell  # noqa: PLC0415 - a terminal library that only it needs

            return Shell(workspace, options).run()
    except CommandFailed as failure:
        Screen(None).fail(failure)
        return failure.status
    else:
        return run(workspace, arguments)
    finally:
        workspace.close()


def complete(environment: Mapping[str, str], words: Sequence[str]) -> int:
    """Print what may stand in the place of the last word: value, tab, description.

    ``words`` are those of the command line without its first, or ``--line`` and the line as it is typed.
    """
    workspace = _workspace(environment, may_ask=False)
    try:
        before, partial = _split(words)
        candidates = Completer(workspace).candidates(before, partial)
        sys.stdout.write("".join(f"{one.value}\t{one.description}\n" for one in candidates))
    except (CommandFailed, OSError):
        # A completion that fails offers nothing; the command itself will say what is wrong.
        return ExitStatus.SUCCESS
    finally:
        workspace.close()
    return ExitStatus.SUCCESS


def _split(words: Sequence[str]) -> tuple[Sequence[str], str]:
    if words[:1] == [LINE]:
        before, partial, _ = words_before(" ".join(words[1:]))
        return before[1:], partial
    return words[:-1], words[-1] if words else ""


def _workspace(environment: Mapping[str, str], *, may_ask: bool = True) -> Workspace:
    screen = Screen(None)
    return Workspace(environment, SystemClock(), screen.warn, screen.say, may_ask=may_ask)
