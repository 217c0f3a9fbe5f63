"""Help pages about bulkmonkey, a verb, or an API with its parameters, types and examples."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.command_line import OPTIONS
from bulkdeploy.cli.connection.catalogue import Api, ApiParameter, Catalogue
from bulkdeploy.cli.output.formats import printable
from bulkdeploy.cli.own_commands import OWN_COMMANDS, OwnCommand

BULK_EXAMPLE = (
    "bulkmonkey bulkdeploy virtualmachine zone=Demo serviceoffering=Small template=Debian virtualmachinecount=100"
)
BULK_EXAMPLES = (BULK_EXAMPLE, f"{BULK_EXAMPLE} dryrun=true", f"{BULK_EXAMPLE} --no-wait")
SAMPLE_WORDS = {
    "integer": "1", "long": "1", "short": "1", "boolean": "true", "float": "1.0", "date": "2030-01-31",
    "tzdate": "2030-01-31T12:00:00+0000",
}  # fmt: skip


def overview(catalogue: Catalogue | None) -> list[RenderableType]:
    """Return the help page of bulkmonkey.

    Verbs are listed if the catalogue is known without a request to the server.
    """
    intro = Text("bulkmonkey", style="bold")
    intro.append(": the command line of CloudStack's API, with bulk deployments as a whole\n\n", style="default")
    intro.append("  bulkmonkey                                  opens the shell\n", style="default")
    intro.append(
        "  bulkmonkey VERB NOUN [name=value ...]       calls an API, such as: list zones\n", style="default"
    )
    intro.append("  bulkmonkey VERB NOUN -h                     its parameters and examples", style="default")
    own = _listing("Commands", [(one.usage, one.description) for one in OWN_COMMANDS.values()])
    options = _listing(
        "Options",
        [(", ".join(one.opts) + (f" {one.metavar}" if one.metavar else ""), one.help or "") for one in OPTIONS],
    )
    verbs: list[tuple[str, str]] = []
    if catalogue is not None:
        verbs = [(verb, _some(api.noun for api in apis)) for verb, apis in catalogue.verbs.items()]
    unknown = Text("Verbs: 'bulkmonkey sync' reads them from the server", style="dim")
    return [intro, own, options, _listing("Verbs", verbs) if verbs else unknown]


def verb_help(word: str, nouns: Sequence[tuple[str, Api]]) -> list[RenderableType]:
    """Return the help page of a verb, with its nouns."""
    rows = [(f"{word} {noun}", printable(api.description)) for noun, api in nouns]
    return [_listing(f"bulkmonkey {word} ...", rows), Text(f"bulkmonkey {word} NOUN -h says more", style="dim")]


def own_help(command: OwnCommand) -> list[RenderableType]:
    """Return the help page of one of bulkmonkey's own commands."""
    return [
        Text(f"bulkmonkey {command.usage}", style="bold"),
        Text(command.description),
        *_examples(tuple(f"{'' if 'bulkmonkey' in line else 'bulkmonkey '}{line}" for line in command.examples)),
    ]


def api_help(api: Api) -> list[RenderableType]:
    """Return the help page of an API: its description, parameters and response fields."""
    title = Text(f"bulkmonkey {api.verb} {api.noun}".rstrip(), style="bold")
    title.append(f"  ({api.name}{', waits for a job' if api.is_async else ''})", style="dim")
    parts: list[RenderableType] = [title, Text(printable(api.description))]
    if api.parameters:
        parts.append(_parameters(api.parameters))
    if api.fields:
        parts.append(
            _listing("Answer (filter=...)", [(name, f"{kind}  {text}") for name, kind, text in api.fields])
        )
    return [*parts, *_examples(examples(api))]


def examples(api: Api) -> tuple[str, ...]:
    """Return example command lines that call an API."""
    if api.name == "bulkDeployVirtualMachine":
        return BULK_EXAMPLES
    words = [f"{parameter.name.removesuffix('id')}=NAME" if _by_name(parameter) else _sample(parameter)
             for parameter in api.parameters if parameter.required]  # fmt: skip
    call = " ".join(["bulkmonkey", api.verb, api.noun, *words]).replace("  ", " ")
    if api.verb != "list":
        return (call,)
    shown = [name for name in ("id", "name", "state") if name in {field[0] for field in api.fields}]
    return (f"{call} filter={','.join(shown)}" if shown else call, f"{call} -o csv")


def _by_name(parameter: ApiParameter) -> bool:
    return parameter.type == "uuid" and parameter.name not in ("id", "jobid")


def _sample(parameter: ApiParameter) -> str:
    return f"{parameter.name}={'ID' if parameter.type == 'uuid' else SAMPLE_WORDS.get(parameter.type, '...')}"


def _parameters(parameters: Iterable[ApiParameter]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        title="Parameters (* required)",
        title_justify="left",
        title_style="bold",
        pad_edge=False,
    )
    table.add_column("name", no_wrap=True)
    table.add_column("type", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in sorted(parameters, key=lambda one: (not one.required, one.name)):
        style = "bold" if one.required else ""
        table.add_row(
            Text(f"{one.name}{'*' if one.required else ''}", style=style), one.type, printable(one.description)
        )
    return table


def _listing(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    table = Table(
        box=None, title=title, title_justify="left", title_style="bold", show_header=False, padding=(0, 2)
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    for name, text in rows:
        table.add_row(Text(name), Text(printable(text)))
    return table


def _examples(lines: Sequence[str]) -> list[RenderableType]:
    if not lines:
        return []
    text = Text("Examples", style="bold")
    for line in lines:
        text.append(f"\n  {line}", style="default")
    return [text]


def _some(words: Iterable[str]) -> str:
    found = [word for word in words if word]
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")
