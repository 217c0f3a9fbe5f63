"""The options of a command line, which are the same in the shell."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from bulkdeploy.cli.concealment import is_secret
from bulkdeploy.cli.connection.profiles import FORMATS
from bulkdeploy.cli.failures import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a command line, and the words of its command."""

    words: tuple[str, ...] = ()
    output: str | None = None
    profile: str | None = None
    url: str | None = None
    apikey: str | None = None
    secretkey: str | None = None
    config: str | None = None
    timeout: float | None = None
    no_wait: bool = False
    dry_run: bool = False
    partial: bool = False
    yes: bool = False
    machine_readable: bool = False
    all_pages: bool = False
    full: bool = False
    quiet: bool = False
    reveal: bool = False
    no_pager: bool = False
    send_unknown: bool = False
    insecure: bool = False
    debug: bool = False
    version: bool = False
    help: bool = False


OPTIONS: tuple[click.Option, ...] = (
    click.Option(["-o", "--output"], type=click.Choice(FORMATS), help="output format"),
    click.Option(["-p", "--profile"], metavar="NAME", help="use this profile; -u, -k and -s override it"),
    click.Option(["-u", "--url"], metavar="URL", help="the API's address"),
    click.Option(["-k", "--apikey"], metavar="KEY", help="API key; @FILE reads it from a file, - prompts for it"),
    click.Option(
        ["-s", "--secretkey"], metavar="KEY", help="secret key; @FILE reads it from a file, - prompts for it"
    ),
    click.Option(["-c", "--config"], metavar="FILE", help="use this configuration file"),
    click.Option(["--no-wait"], is_flag=True, help="do not wait for jobs"),
    click.Option(["--dry-run"], is_flag=True, help="return the plan and change nothing: dryrun=true"),
    click.Option(["--partial"], is_flag=True, help="leave out VMs that do not fit: partial=true"),
    click.Option(["--yes"], is_flag=True, help="of bulk: do not ask for confirmation"),
    click.Option(["--machine-readable"], is_flag=True, help="of capacity: print hspace's keys, for programs"),
    click.Option(
        ["--timeout"],
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="wait for jobs at most this long; 0: no limit",
    ),
    click.Option(["--all", "all_pages"], is_flag=True, help="read every page of a list"),
    click.Option(["--full"], is_flag=True, help="show all fields of each job of a batch"),
    click.Option(["-q", "--quiet"], is_flag=True, help="print only results and errors"),
    click.Option(["--reveal"], is_flag=True, help="show secrets in answers on a terminal"),
    click.Option(["--no-pager"], is_flag=True, help="do not page long output"),
    click.Option(["--send-unknown"], is_flag=True, help="send parameters that the API does not declare"),
    click.Option(["--insecure"], is_flag=True, help="accept any certificate"),
    click.Option(["-d", "--debug"], is_flag=True, help="show requests, without secrets"),
    click.Option(["-v", "--version"], is_flag=True, help="show the version"),
    click.Option(["-h", "--help"], is_flag=True, help="show help; after a verb or an API: help about it"),
)


OPTION_WORDS = frozenset(word for option in OPTIONS for word in option.opts)
NO_OPTION = "\0"
"""Before a word that is none, though it begins like one; no argument of a process can hold it."""


class _Parser(click.Command):
    """A click command that only parses arguments into parameters and runs nothing."""

    def __init__(self) -> None:
        words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
        super().__init__("bulkmonkey", params=[*OPTIONS, words], add_help_option=False)


def parse(arguments: Sequence[str]) -> Options:
    """Return the options and words of a command line. Options may be anywhere among the words.

    Raises:
        UsageError: an option does not exist or its value is wrong.
    """
    try:
        context = _Parser().make_context("bulkmonkey", _with_marked_keys(arguments))
    except click.ClickException as error:
        message = error.format_message().rstrip(".")
        raise UsageError(message[:1].lower() + message[1:], hint="Options: bulkmonkey -h") from error
    words = (word.removeprefix(NO_OPTION) for word in context.params.pop("words"))
    return Options(words=tuple(words), **context.params)


def _with_marked_keys(arguments: Sequence[str]) -> list[str]:
    """Return the arguments.

    A key after ``set apikey`` that begins with a dash is marked, so that it is not an option.
    """
    marked = list(arguments)
    for position, (command, name, value) in enumerate(zip(marked, marked[1:], marked[2:], strict=False), start=2):
        is_key = command == "set" and is_secret(name) and value.startswith("-")
        if is_key and value not in OPTION_WORDS:
            marked[position] = f"{NO_OPTION}{value}"
    return marked


def takes_value(word: str) -> str | None:
    """Return the option's name if ``word`` is an option whose value is the next word, otherwise None."""
    for option in OPTIONS:
        if word in option.opts and not option.is_flag:
            return option.name
    return None


def merged(base: Options, typed: Options) -> Options:
    """Return the options of a line in the shell.

    An option that is not typed in the line has the value with which the shell was started.
    """
    default = Options()
    values = {
        name: getattr(typed if getattr(typed, name) != getattr(default, name) else base, name)
        for name in Options.__dataclass_fields__
    }
    return Options(**{**values, "words": typed.words, "help": typed.help, "version": typed.version})
