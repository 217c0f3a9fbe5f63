"""Writes the files that are generated from declarations: ``python -m bulkdeploy.manage.generate [--check]``."""

import json
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import click
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from bulkdeploy.commands.registry import find_commands, find_nouns
from bulkdeploy.declare.reference_page import reference_page
from bulkdeploy.drivers.options import FILE_SUFFIX, TABLE, variable_prefix
from bulkdeploy.drivers.registry import in_tree_drivers, in_tree_options
from bulkdeploy.manage.zone_files.reference import zone_file_page
from bulkdeploy.security.guarded_fetch import FetchRules
from bulkdeploy.wiring.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).parents[2]
COMMENT_WIDTH = 100
FETCH = "fetch"
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
ANYTHING = TypeAdapter[object](object)

HEADER = f"""\
# Settings of bulkdeploy with their defaults; generated from bulkdeploy/wiring/settings.py by `make generate`.
# Use: bulkdeploy --config FILE ...
# An environment variable overrides a setting: {ENVIRONMENT_PREFIX} and the setting's name in capitals.
"""


DRIVER_HEADER = f"""\
# Options of drivers, in a table for each driver that the setting `drivers` names. In the environment:
# {variable_prefix(TABLE)}NAME__OPTION. Instead of an option, OPTION{FILE_SUFFIX} may name a file that
# holds its value, such as a secret. Drivers from elsewhere have options of their own: docs/tutorials/drivers.md.
"""


def default_toml() -> str:
    """Return the text of config/default.toml: every setting with its meaning and its default as a comment."""
    fields = {name: field for name, field in Settings.model_fields.items() if name not in (TABLE, FETCH)}
    parts = [HEADER, *_assignments(fields), f"# [{FETCH}]", *_assignments(FetchRules.model_fields), DRIVER_HEADER]
    for name in in_tree_drivers():
        parts += [f"# [{TABLE}.{name}]", *_assignments(in_tree_options(name).model_fields)]
    return "\n".join(parts)


def _assignments(fields: Mapping[str, FieldInfo]) -> list[str]:
    """Return the meaning of each field as a comment, and its default as a commented assignment."""
    parts = []
    for name, field in fields.items():
        meaning = f"{field.description}{_bounds(field)}"
        comment = textwrap.fill(meaning, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")
        given = None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
        default = ANYTHING.dump_python(given, mode="json")
        parts.append(f"{comment}\n# {name} = {_toml(default)}\n")
    return parts


def _bounds(field: FieldInfo) -> str:
    """Return the smallest and the largest value that a number may have, in words."""
    found = {name: getattr(rule, name) for rule in field.metadata for name in BOUNDS if hasattr(rule, name)}
    words = ", ".join(f"{BOUNDS[name]} {value:g}" for name, value in found.items())
    return f" {words.capitalize()}." if words else ""


def _toml(value: object) -> str:
    """Return a setting's default in TOML; unset ones as an empty string, to be filled in."""
    if value is None:
        return '""'
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}" if value else "{}"
    return json.dumps(value)


FILES: Mapping[str, Callable[[], str]] = {
    "config/default.toml": default_toml,
    "docs/reference/api.md": lambda: reference_page(find_commands().values()),
    "docs/reference/zone-files.md": lambda: zone_file_page(find_nouns().values()),
}
"""Each generated file, by its path from the project's root."""


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail where a file differs.")
def main(check: bool) -> None:
    """Write the generated files. With ``check``, exit with an error if a file is not up to date."""
    stale = [
        name for name, text in ((name, make()) for name, make in FILES.items()) if not _write(name, text, check)
    ]
    if stale:
        click.echo(f"Out of date: {', '.join(stale)}. Run `make generate`.", err=True)
        sys.exit(1)


def _write(name: str, text: str, check: bool) -> bool:
    """Write a file and return True. With ``check``, return whether the file is up to date, without writing it."""
    path = ROOT / name
    if check:
        return path.is_file() and path.read_text() == text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


if __name__ == "__main__":
    main()
