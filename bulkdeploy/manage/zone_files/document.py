"""A YAML reader that keeps the line of every value and does not guess types.

Scalars stay text until their type is known, so that ``no`` can be a name. YAML features that make files expand,
hide or contradict themselves are rejected: anchors and aliases, tags, repeated keys, several documents and deep
nesting.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from bulkdeploy.domain.errors import InvalidInventory

LARGEST_FILE_BYTES = 16 * 1024 * 1024
DEEPEST = 20
MOST_PROBLEMS = 100
LONGEST_SHOWN = 60
UNPRINTABLE = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that no value may hold: PostgreSQL cannot keep them, or a terminal would obey them."""

NULLS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Where:
    """The line and key at which a file describes something."""

    line: int
    path: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value as it is written in the file. ``is_null`` is true if nothing is written."""

    line: int
    text: str
    is_null: bool = False


@dataclass(slots=True)
class Items:
    """A list."""

    line: int
    nodes: list["Node"] = field(default_factory=list)


@dataclass(slots=True)
class Entries:
    """A mapping: its keys with their lines, and the values."""

    line: int
    nodes: dict[str, "Node"] = field(default_factory=dict)
    key_lines: dict[str, int] = field(default_factory=dict)


Node: TypeAlias = Scalar | Items | Entries


class Refused(Exception):
    """Raised when a line of the file breaks ``rule``, so that nothing after the line can be read."""

    def __init__(self, line: int, rule: str) -> None:
        self.line, self.rule = line, rule
        super().__init__(rule)


class Problems:
    """All problems of a file, in the order of its lines."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: set[tuple[int, str, str]] = set()

    def add(self, where: Where, rule: str) -> None:
        """Record that the file breaks a rule at a line and key."""
        self._found.add((where.line, where.path, rule))

    def texts(self) -> list[str]:
        """Return the recorded problems, each in the form ``key: rule``."""
        return [f"{path}: {rule}" for _, path, rule in sorted(self._found)]

    def refuse_if_any(self) -> None:
        """Raise InvalidInventory with all recorded problems, if there are any.

        Raises:
            InvalidInventory: one text per problem: ``file:line: key: rule``.
        """
        texts = [
            f"{self.file}:{line}: {path}: {rule}" if path else f"{self.file}:{line}: {rule}"
            for line, path, rule in sorted(self._found)
        ]
        if len(texts) > MOST_PROBLEMS:
            texts[MOST_PROBLEMS:] = [f"{self.file}: and {len(texts) - MOST_PROBLEMS} more problems"]
        if texts:
            raise InvalidInventory(texts)


def read_document(file: str, data: bytes, problems: Problems) -> Node:
    """Return the tree of the one YAML document in ``data``. Repeated keys are recorded in ``problems``.

    Raises:
        InvalidInventory: the file is too large, is not UTF-8 or YAML, or uses a feature of YAML that is not
            allowed.
    """
    if len(data) > LARGEST_FILE_BYTES:
        raise InvalidInventory([f"{file}:1: the file is larger than {LARGEST_FILE_BYTES} bytes"])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInventory([f"{file}:{line}: the file must be UTF-8 text: {error.reason}"]) from error
    try:
        return _build(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), problems)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        rule = f"this is not YAML: {error.problem}"
        raise InvalidInventory([f"{file}:{line}: {rule}"]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidInventory([f"{file}:{line}: this is not YAML: {error.reason}"]) from error
    except Refused as refused:
        raise InvalidInventory([f"{file}:{refused.line}: {refused.rule}"]) from refused


def _build(events: Iterator[yaml.Event], problems: Problems) -> Node:
    """Return the tree of nodes.

    The tree is built without recursion, so that deep nesting breaks a rule and not the stack.
    """
    document = Items(1)
    open_nodes: list[Items | Entries] = [document]
    keys: list[Scalar | None] = [None]
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            open_nodes.pop()
            keys.pop()
        elif isinstance(event, yaml.NodeEvent):
            node = _node(event, line)
            keys[-1] = _attach(open_nodes[-1], keys[-1], node, problems)
            if not isinstance(node, Scalar):
                open_nodes.append(node)
                keys.append(None)
            if len(open_nodes) > DEEPEST:
                raise Refused(line, f"is nested more than {DEEPEST} levels deep")
    if len(document.nodes) != 1:
        line = document.nodes[1].line if document.nodes else 1
        raise Refused(line, f"the file must contain one document, not {len(document.nodes)}")
    return document.nodes[0]


def _node(event: yaml.NodeEvent, line: int) -> Node:
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise Refused(line, f"anchors and aliases are not supported (&{event.anchor}): repeat the value instead")
    tag = getattr(event, "tag", None)
    if tag not in (None, "!"):
        raise Refused(line, f"YAML tags are not supported: {tag}")
    if isinstance(event, yaml.ScalarEvent):
        if UNPRINTABLE.search(event.value):
            raise Refused(line, "contains control characters or halves of surrogate pairs")
        return Scalar(line, event.value, is_null=not event.style and event.value in NULLS)
    return Entries(line) if isinstance(event, yaml.MappingStartEvent) else Items(line)


def _attach(parent: Items | Entries, key: Scalar | None, node: Node, problems: Problems) -> Scalar | None:
    """Add a node to its parent. In a mapping, keys and values follow each other.

    Returns the node if it is a key that waits for its value, else None.
    """
    if isinstance(parent, Items):
        parent.nodes.append(node)
        return None
    if key is None:
        if not isinstance(node, Scalar):
            raise Refused(node.line, "a key must be a plain word (a pattern in braces must be in quotes)")
        return node
    if key.text in parent.nodes:
        first = parent.key_lines[key.text]
        problems.add(Where(key.line, key.text[:LONGEST_SHOWN]), f"is given twice: the first one is in line {first}")
        return None
    parent.nodes[key.text] = node
    parent.key_lines[key.text] = key.line
    return None
