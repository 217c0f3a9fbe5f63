"""YAML as a person writes it, with the line of everything: no types guessed, no surprises.

Scalars stay text until a reader says what they must be, so ``no`` is a name where a name is
wanted. What makes YAML files expand, hide or contradict themselves is refused: anchors and
aliases, tags, keys given twice, several documents, deep nesting.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Generic, TypeAlias, TypeVar

import yaml

from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.domain.inventory_owners import Where

T = TypeVar("T")
D = TypeVar("D")

LARGEST_FILE_BYTES = 16 * 1024 * 1024
DEEPEST = 20
MOST_PROBLEMS = 100
LONGEST_SHOWN = 60
NULLS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, as written; ``is_null``: written as nothing."""

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
    """A node breaks ``rule``; ``suffix`` leads from the key that is being read to the node."""

    def __init__(self, line: int, rule: str, suffix: str = "") -> None:
        self.line, self.rule, self.suffix = line, rule, suffix
        super().__init__(rule)


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """What a node must be: ``read`` gives it or raises ``Refused``; after that ``stand_in`` takes its place."""

    read: Callable[[Node], T]
    stand_in: T


class Problems:
    """Everything that is wrong with one file, in the order of its lines."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: set[tuple[int, str, str]] = set()

    def add(self, where: Where, rule: str) -> None:
        """Note that the rule is broken there."""
        self._found.add((where.line, where.path, rule))

    def refuse_if_any(self) -> None:
        """Refuse the file if something was noted.

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


class Keys:
    """The keys of one mapping, read one by one; ``close`` refuses those that nobody read."""

    def __init__(self, node: Node, path: str, noun: str, problems: Problems) -> None:
        self.where, self.noun, self._problems = Where(node.line, path), noun, problems
        self._asked: set[str] = set()
        self._readable = isinstance(node, Entries)
        self._entries = node if isinstance(node, Entries) else Entries(node.line)
        if not self._readable:
            self._problems.add(self.where, f"must be a mapping with the keys of {noun}")

    def need(self, key: str, value: Value[T]) -> T:
        """The value of a required key."""
        if key not in self._entries.nodes:
            self._asked.add(key)
            if self._readable:
                self._problems.add(self.where, f"key {key!r} is missing: {self.noun} must have one")
            return value.stand_in
        return self._read(key, value)

    def get(self, key: str, value: Value[T], default: D) -> T | D:
        """The value of a key, or the default where the key is not given."""
        self._asked.add(key)
        return self._read(key, value) if key in self._entries.nodes else default

    def each(self, key: str, noun: str, read: Callable[["Keys"], T]) -> tuple[T, ...]:
        """A list of mappings, each read by ``read``; empty where the key is not given."""
        self._asked.add(key)
        node = self._entries.nodes.get(key)
        if node is None:
            return ()
        if not isinstance(node, Items):
            self.refuse(key, "must be a list")
            return ()
        return tuple(self._item(item, f"{key}[{at}]", noun, read) for at, item in enumerate(node.nodes))

    def one(self, key: str, noun: str, read: Callable[["Keys"], T]) -> T | None:
        """One mapping read by ``read``; None where the key is not given."""
        self._asked.add(key)
        node = self._entries.nodes.get(key)
        return None if node is None else self._item(node, key, noun, read)

    def refuse(self, key: str, rule: str) -> None:
        """Note that this key breaks a rule."""
        line = self._entries.key_lines.get(key, self.where.line)
        self._problems.add(Where(line, self._path(key)), rule)

    def close(self) -> None:
        """Refuse keys that were not asked for, with the nearest one that is known."""
        for key in self._entries.nodes.keys() - self._asked:
            near = get_close_matches(key, self._asked, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(self._asked))}"
            self.refuse(key, f"{self.noun} has no such key; {hint}")

    def _read(self, key: str, value: Value[T]) -> T:
        self._asked.add(key)
        node = self._entries.nodes[key]
        if isinstance(node, Scalar) and node.is_null:
            self.refuse(key, "is empty: give a value or leave the key out")
            return value.stand_in
        try:
            return value.read(node)
        except Refused as refused:
            self._problems.add(Where(refused.line, self._path(key) + refused.suffix), refused.rule)
            return value.stand_in

    def _item(self, node: Node, key: str, noun: str, read: Callable[["Keys"], T]) -> T:
        keys = Keys(node, self._path(key), noun, self._problems)
        result = read(keys)
        keys.close()
        return result

    def _path(self, key: str) -> str:
        key = key if len(key) <= LONGEST_SHOWN else f"{key[:LONGEST_SHOWN]}..."
        return f"{self.where.path}.{key}" if self.where.path else key


def read_document(file: str, data: bytes, problems: Problems) -> Node:
    """The one document in ``data``; broken rules of the notation are noted in ``problems``.

    Raises:
        InvalidInventory: the text cannot be read as YAML at all.
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
    """The tree of nodes; built without recursion, so that depth is a rule and not an accident."""
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
        raise Refused(line, f"the file must hold one document, not {len(document.nodes)}")
    return document.nodes[0]


def _node(event: yaml.NodeEvent, line: int) -> Node:
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise Refused(line, f"anchors and aliases are not used here (&{event.anchor}): write it out")
    tag = getattr(event, "tag", None)
    if tag not in (None, "!"):
        raise Refused(line, f"tags are not used here: {tag}")
    if isinstance(event, yaml.ScalarEvent):
        return Scalar(line, event.value, is_null=not event.style and event.value in NULLS)
    return Entries(line) if isinstance(event, yaml.MappingStartEvent) else Items(line)


def _attach(parent: Items | Entries, key: Scalar | None, node: Node, problems: Problems) -> Scalar | None:
    """Hang a node on its parent; in a mapping nodes come as key, value, key, ... Returns a key that waits."""
    if isinstance(parent, Items):
        parent.nodes.append(node)
        return None
    if key is None:
        if not isinstance(node, Scalar):
            raise Refused(node.line, "a key must be a plain word (a pattern in braces must stand in quotes)")
        return node
    if key.text in parent.nodes:
        first = parent.key_lines[key.text]
        problems.add(Where(key.line, key.text[:LONGEST_SHOWN]), f"is given twice: the first one is in line {first}")
        return None
    parent.nodes[key.text] = node
    parent.key_lines[key.text] = key.line
    return None
