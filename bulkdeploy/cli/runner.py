"""The execution of one command line: finds the command, runs it, prints a failure, and returns the exit status."""

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.command_line import Options, parse
from bulkdeploy.cli.connection.catalogue import Catalogue
from bulkdeploy.cli.failures import CommandFailed, ExitStatus, Interrupted, UsageError
from bulkdeploy.cli.help_pages import api_help, overview, own_help, verb_help
from bulkdeploy.cli.output.screen import Screen
from bulkdeploy.cli.own_commands import OWN_COMMANDS, own_command
from bulkdeploy.cli.workspace import Workspace

OLD_API_WORD = "api"
"""CloudMonkey 5 wrote ``api listZones``."""


def run(workspace: Workspace, arguments: Sequence[str]) -> ExitStatus:
    """Run a command line and return its exit status. A failure prints at most one line."""
    try:
        options = parse(arguments)
    except CommandFailed as failure:
        Screen(_requested_output(arguments)).fail(failure)
        return failure.status
    return run_options(workspace, options)


def run_options(workspace: Workspace, options: Options) -> ExitStatus:
    """Run a command line that is already parsed, and return its exit status. A failure prints at most one line."""
    screen = Screen(options.output)
    workspace.debug = options.debug
    try:
        preferences = workspace.preferences(options)
        screen = Screen(preferences.output, quiet=options.quiet, reveal=options.reveal, pager=preferences.pager)
        _dispatch(CommandContext(workspace, options, screen))
        sys.stdout.flush()
    except CommandFailed as failure:
        screen.fail(failure)
        return failure.status
    except KeyboardInterrupt:
        screen.fail(Interrupted("Interrupted"))
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, so nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        screen.fail(CommandFailed(f"{type(error).__name__}: {error}"))
        return ExitStatus.API_ERROR
    return ExitStatus.SUCCESS


def _dispatch(context: CommandContext) -> None:
    options = context.options
    words = list(options.words)
    if words[:1] == ["help"]:
        words, wants_help = words[1:], True
    else:
        wants_help = options.help
    if options.version:
        from importlib.metadata import version  # noqa: PLC0415 - slow to load, and seldom needed

        print(f"bulkmonkey {version('bulkdeploy')}")  # noqa: T201 - the version is the answer
    elif not words:
        context.screen.render(*overview(_kept_catalogue(context)))
    elif own_command(words) is not None or (wants_help and len(words) == 1 and words[0] in OWN_COMMANDS):
        _own(context, words, wants_help)
    else:
        _api(context, words, wants_help)


def _own(context: CommandContext, words: list[str], wants_help: bool) -> None:
    command = OWN_COMMANDS[words[0]]
    if wants_help:
        context.screen.render(*own_help(command))
    else:
        command.run(context, words[1:])


def _api(context: CommandContext, words: list[str], wants_help: bool) -> None:
    if words[0] == OLD_API_WORD and len(words) > 1:
        words = words[1:]
    catalogue = context.catalogue
    found = catalogue.find(words)
    if found is None:
        _verb_alone(context, catalogue, words, wants_help)
        return
    api, rest = found
    if wants_help:
        context.screen.render(*api_help(api))
    else:
        from bulkdeploy.cli.api_commands import run_api  # noqa: PLC0415 - help needs none of it

        run_api(context, api, rest)


def _verb_alone(context: CommandContext, catalogue: Catalogue, words: list[str], wants_help: bool) -> None:
    nouns = catalogue.nouns_after(words[0])
    if len(words) == 1 and nouns:
        if wants_help:
            context.screen.render(*verb_help(words[0], nouns))
            return
        some = ", ".join(noun for noun, _ in nouns[:8]) + (", ..." if len(nouns) > 8 else "")
        raise UsageError(f"no noun follows {words[0]}", hint=f"Nouns of {words[0]}: {some}")
    close = [f"{api.verb} {api.noun}" for api in catalogue.similar(words)]
    hint = f"Did you mean: {' or '.join(close)}?" if close else "'sync' reads the server's APIs again"
    raise UsageError(f"unknown command or API: {' '.join(words[:2])}", hint=hint)


def _kept_catalogue(context: CommandContext) -> Catalogue | None:
    try:
        return context.workspace.known_catalogue(context.connection)
    except UsageError:
        return None


def _requested_output(arguments: Sequence[str]) -> str | None:
    """Return the output format that a command line requests, or None.

    The command line need not be valid, so that errors about it are printed in this format.
    """
    for flag, value in pairwise(arguments):
        if flag in ("-o", "--output") and value == "json":
            return value
    return "json" if "-ojson" in arguments or "--output=json" in arguments else None
