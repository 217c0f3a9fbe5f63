"""``bulkdeploy import``: imports the objects of another cloud."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bulkdeploy.cloudstack.client import Access, Client
from bulkdeploy.manage.configuration import service_settings

if TYPE_CHECKING:
    from bulkdeploy.manage.upstream.importing import ImportReport

CALLS_PER_SECOND = 10.0

OF_ONE_THING = re.compile(r"(\w+) (.*\([0-9a-f-]{36}\)): (.*)")
"""What is left out: section, name with id, reason."""

MOST_NAMED = 3
"""Of more things of a section that are left out for the same reason only so many are named."""


class SecretText(click.ParamType[str]):
    """The type of an option whose secret value is read from a file, given as ``@FILE``.

    Other users can read command lines, so the secret itself must not be an argument.
    """

    name = "@file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text of the file that the option names. Fails if the file cannot be read or is empty."""
        text = str(value)
        if not text.startswith("@"):
            self.fail(
                "must be @ and the name of a file that holds it: command lines can be read by others", param, ctx
            )
        try:
            secret = Path(text[1:]).read_text(encoding="utf-8").strip()
        except OSError as error:
            self.fail(f"{text[1:]} cannot be read: {error.strerror}", param, ctx)
        except UnicodeDecodeError:
            self.fail(f"{text[1:]} must be text in UTF-8", param, ctx)
        if not secret:
            self.fail(f"{text[1:]} must not be empty", param, ctx)
        return secret


URL = click.option("--url", required=True, help="Its API: https://cloud.example.org/client/api.")
API_KEY = click.option("--apikey", required=True, type=SecretText(), help="File with the API key of a root admin.")
SECRET_KEY = click.option("--secretkey", required=True, type=SecretText(), help="File with its secret key.")
CA_FILE = click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Certificates that vouch for it; else the system's.",
)
PACE = click.option(
    "--calls-per-second",
    type=click.FloatRange(min=0.1),
    default=CALLS_PER_SECOND,
    show_default=True,
    help="The most calls that it gets.",
)


@click.group("import")
def import_() -> None:
    """Import the objects of another cloud."""


@import_.command()
@URL
@API_KEY
@SECRET_KEY
@CA_FILE
@PACE
@click.option("--zone", "zones", multiple=True, help="Name or id of the only zone to import; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and keep nothing.")
@click.option("--each", is_flag=True, help="Name each thing that is left out, however many are for one reason.")
@click.pass_context
def cloudstack(
    ctx: click.Context,
    url: str,
    apikey: str,
    secretkey: str,
    ca_file: str | None,
    calls_per_second: float,
    zones: tuple[str, ...],
    dry_run: bool,
    each: bool,
) -> None:
    """Import a CloudStack: its zones, hosts, offerings, networks, accounts and VMs, with their ids.

    The CloudStack is only read. A second import updates changed objects and removes objects that no longer exist
    there. Passwords and keys are not imported.
    """
    from bulkdeploy.manage.upstream.importing import import_cloudstack
    from bulkdeploy.wiring.system import build_system

    system = build_system(service_settings(ctx))
    client = Client(Access(url, apikey, secretkey, ca_file, calls_per_second))
    try:
        report = import_cloudstack(system, client, zones, dry_run=dry_run)
    finally:
        client.close()
        system.drivers.close()
        system.reading.dispose()
        system.engine.dispose()
    for line in report_lines(report, dry_run=dry_run, each=each):
        click.echo(line)


def report_lines(report: "ImportReport", *, dry_run: bool, each: bool = False) -> list[str]:
    """Return the report of an import as lines of text.

    Objects of a section that were left out for the same reason share one line, unless ``each`` is true.
    """
    counted = (("created", report.created), ("changed", report.changed), ("removed", report.removed))
    lines = [
        f"{title}: {', '.join(f'{number} {section}' for section, number in counts.items())}"
        for title, counts in counted
        if counts
    ]
    lines = lines or ["Everything was here already."]
    lines += [f"left out: {text}" for text in (report.left_out if each else _grouped(report.left_out))]
    lines += [
        f"incomplete: {command} gave fewer rows than it counts; nothing of these was removed"
        for command in report.incomplete
    ]
    lines.append(f"{report.calls} calls were made{'; nothing was kept' if dry_run else ''}")
    return lines


def _grouped(left_out: Sequence[str]) -> Iterator[str]:
    """Yield the texts about rows that were left out. Rows of a section with the same reason share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for text in left_out:
        found = OF_ONE_THING.fullmatch(text)
        section, reason = (found[1], found[3]) if found else ("", text)
        alike.setdefault((section, reason), []).append(found[2] if found else text)
    for (section, reason), names in alike.items():
        if not section:
            yield reason
        elif len(names) <= MOST_NAMED:
            yield from (f"{section} {name}: {reason}" for name in names)
        else:
            more = len(names) - MOST_NAMED
            yield f"{len(names)} {section}: {reason}: {', '.join(names[:MOST_NAMED])} and {more} more (--each)"
