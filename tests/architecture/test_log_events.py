"""Log events are snake_case names, and docs/reference/monitoring.md explains each of them."""

import ast
import re
from pathlib import Path

from tests.architecture.source_files import nodes_of
from tests.architecture.test_imports import ROOT, SOURCES

LEVELS = {"debug", "info", "warning", "error", "exception"}
REPORTERS = {"_tell", "_report"}
"""Methods that log the event that they are given."""


def events_in(path: Path) -> set[str]:
    """The events that a file logs."""
    found: set[str] = set()
    for node in nodes_of(path):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called = node.func
        is_log = isinstance(called, ast.Attribute) and called.attr in LEVELS and ast.unparse(called.value) == "log"
        name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
        if is_log or name in REPORTERS:
            found.add(str(node.args[0].value))
    return found


def test_every_event_is_explained_and_every_explained_one_exists() -> None:
    """The table of log events has each event of the code once, and no other."""
    logged = set().union(*(events_in(path) for path in SOURCES))
    assert [event for event in logged if not re.fullmatch(r"[a-z][a-z0-9_]*", event)] == []
    section = (
        (ROOT / "docs" / "reference" / "monitoring.md")
        .read_text()
        .partition("\n## Log events\n")[2]
        .partition("\n## ")[0]
    )
    explained = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(explained) == sorted(logged)
