"""Event types are words of one list, which listEventTypes answers."""

import ast
import re
from pathlib import Path

from bulkdeploy.domain.events import EventType
from tests.architecture.source_files import nodes_of
from tests.architecture.test_imports import ROOT, SOURCES, offenders

FIRST_WORDS = {word.value.split(".")[0] for word in EventType}
LOOKS_LIKE_ONE = re.compile(r"[A-Z]+(\.[A-Z]+)+")
HOME = ROOT / "bulkdeploy" / "domain" / "events.py"


def event_types_written_out(path: Path) -> list[str]:
    """Texts in a file's code that are event types, or would be if the list had them."""
    nodes = nodes_of(path)
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(text for text in texts if LOOKS_LIKE_ONE.fullmatch(text) and text.split(".")[0] in FIRST_WORDS)


def test_event_types_are_named_not_written_out() -> None:
    """Whoever records an event takes its type from the list; SQL writes none by itself either."""
    assert offenders([path for path in SOURCES if path != HOME], event_types_written_out) == {}
    inserts = [path.name for path in (ROOT / "bulkdeploy").rglob("*.sql") if "INTO events" in path.read_text()]
    assert inserts == []
