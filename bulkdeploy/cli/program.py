"""The entry points of the program: one command line, the shell, or shell completion."""

import sys
from collections.abc import Mapping, Sequence

from bulkdeploy.cli.command_line import parse
from bulkdeploy.cli.connection.clock import Clock, SystemClock
from bulkdeploy.cli.failures import CommandFailed, ExitStatus
from bulkdeploy.cli.output.lines import words_before
from bulkdeploy.cli.output.screen import Screen
from bulkdeploy.cli.runner import run
from bulkdeploy.cli.workspace import Workspace

COMPLETE = "__complete"
"""How completion scripts call: ``bulkmonkey __complete``, with the line up to the cursor on standard input.

(A line may hold a key, and arguments can be read by every user of the machine.)
"""


def run_program(environment: Mapping[str, str], arguments: Sequence[str], clock: Clock | None = None) -> int:
    """Execute the arguments of the program and return the exit status."""
    clock = clock or SystemClock()
    if list(arguments) == [COMPLETE]:
        return complete(environment, sys.stdin.read().removesuffix("\n"), clock)
    return one_shot(environment, arguments, clock)


def one_shot(environment: Mapping[str, str], arguments: Sequence[str], clock: Clock) -> int:
    """Run one command line, or the shell if it contains no command, and return the exit status."""
    workspace = _workspace(environment, clock)
    try:
        options = parse(arguments)
        if not (options.words or options.help or options.version):
            from bulkdeploy.cli.shell.shell import Shell  # noqa: PLC0415 - a terminal library that only it needs

            return Shell(workspace, options).run()
    except CommandFailed as failure:
        Screen(None).fail(failure)
        return failure.status
    else:
        return run(workspace, arguments)
    finally:
        workspace.close()


def complete(environment: Mapping[str, str], line: str, clock: Clock) -> int:
    """Print the possible completions of the last word of a line: value, tab and description."""
    from bulkdeploy.cli.shell.completion import Completer  # noqa: PLC0415 - no command needs it

    workspace = _workspace(environment, clock, may_connect=False)
    try:
        before, partial, _ = words_before(line)
        candidates = Completer(workspace).candidates(before[1:], partial)
        sys.stdout.write("".join(f"{one.value}\t{one.description}\n" for one in candidates))
    except (CommandFailed, OSError):
        # If completion fails, there are no suggestions; the command itself shows the error.
        return ExitStatus.SUCCESS
    finally:
        workspace.close()
    return ExitStatus.SUCCESS


def _workspace(environment: Mapping[str, str], clock: Clock, *, may_connect: bool = True) -> Workspace:
    screen = Screen(None)
    return Workspace(environment, clock, screen.warn, screen.print_message, may_connect=may_connect)
