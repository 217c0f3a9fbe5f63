"""Writes the files that are generated from declarations: ``python -m bulkdeploy.manage.generate [--check]``."""

import json
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import click
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.reference_page import reference_page
from bulkdeploy.wiring.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).parents[2]
COMMENT_WIDTH = 100
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
ANYTHING = TypeAdapter[object](object)

HEADER = f"""\
# Settings of bulkdeploy with their defaults; generated from bulkdeploy/wiring/settings.py by `make generate`.
# Use: bulkdeploy --config FILE ...
# Every setting may also stand in the environment: {ENVIRONMENT_PREFIX} and its name in capitals; that wins.
"""


def default_toml() -> str:
    """config/default.toml: every setting, its meaning, and its default as a commented line."""
    parts = [HEADER]
    for name, field in Settings.model_fields.items():
        meaning = f"{field.description}{_bounds(field)}"
        comment = textwrap.fill(meaning, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")
        default = ANYTHING.dump_python(field.get_default(call_default_factory=True, validated_data={}), mode="json")
        parts.append(f"{comment}\n# {name} = {_toml(default)}\n")
    return "\n".join(parts)


def _bounds(field: FieldInfo) -> str:
    """The smallest and the largest value that a number may have, in words."""
    found = {name: getattr(rule, name) for rule in field.metadata for name in BOUNDS if hasattr(rule, name)}
    words = ", ".join(f"{BOUNDS[name]} {value:g}" for name, value in found.items())
    return f" {words.capitalize()}." if words else ""


def _toml(value: object) -> str:
    """A setting's default in TOML; unset ones as an empty string, to be filled in."""
    if value is None:
        return '""'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


FILES: Mapping[str, Callable[[], str]] = {
    "config/default.toml": default_toml,
    "docs/reference/api.md": lambda: reference_page(find_commands().values()),
}
"""Each generated file, by its path from the project's root."""


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail where a file differs.")
def main(check: bool) -> None:
    """Write the generated files."""
    stale = [
        name for name, text in ((name, make()) for name, make in FILES.items()) if not _write(name, text, check)
    ]
    if stale:
        click.echo(f"Out of date: {', '.join(stale)}. Run `make generate`.", err=True)
        sys.exit(1)


def _write(name: str, text: str, check: bool) -> bool:
    """Write a file, or say whether it is as it should be."""
    path = ROOT / name
    if check:
        return path.is_file() and path.read_text() == text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


if __name__ == "__main__":
    main()
