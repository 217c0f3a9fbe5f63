"""The conversion of a zone file's nodes to entries of nouns, with all checks that need no database.

The keys of an entry are the parameters of the commands that create and change the object, and the sections of
nested objects. Nested entries inherit the values that they do not set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

from bulkdeploy.declare.binding import NOT_GIVEN, Binder
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import ParameterError
from bulkdeploy.manage.zone_files import patterns
from bulkdeploy.manage.zone_files.document import Entries, Items, Node, Problems, Scalar, Where

LONGEST_SHOWN = 60


@dataclass(slots=True, eq=False)
class Entry:
    """An object that a zone file describes.

    Attributes:
        values: the values of its parameters, except references.
        references: the objects that its parameters refer to, by name or id, or as the outer entry.
        lines: the line of each parameter in the file.
        ref: the object in the database, or None until the object is found or created.
        failed: whether the entry breaks a rule. The problem was recorded.
    """

    noun: Noun
    where: Where
    outer: "Entry | None"
    values: dict[str, Any] = field(default_factory=dict)
    references: "dict[str, Reference]" = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    ref: EntityRef | None = None
    failed: bool = False

    def place_of(self, parameter: str | None) -> Where:
        """Return the position of a parameter in the file, else that of the object."""
        if parameter not in self.lines:
            return self.where
        return Where(self.lines[parameter], f"{self.where.path}.{parameter}")


Reference: TypeAlias = "tuple[str, ...] | Entry"


class Section:
    """The rules for entries of one noun in a zone file. One object is created per noun and file."""

    def __init__(self, noun: Noun) -> None:
        self.noun = noun
        declared = {parameter.name: parameter for parameter in noun.create.parameters}
        self.inherited = tuple(one for one in declared.values() if one.entity and one.type is WireType.UUID)
        self.required = [one.name for one in declared.values() if one.required and one.name not in noun.optional]
        for parameter in (*(noun.update.parameters if noun.update else ()), *noun.more):
            if parameter.name != "id":
                declared.setdefault(parameter.name, replace(parameter, required=False))
        self.parameters: Mapping[str, Parameter] = declared
        self.binder = Binder(replace(noun.create, parameters=tuple(declared.values())))

    def stands_in(self, outer: "Section") -> bool:
        """Return whether entries of this section may be nested in entries of the section ``outer``.

        Nested entries inherit values from the outer entry.
        """
        if outer.noun.entity is None:
            return False
        if outer.noun is self.noun:
            return any(parameter.name == self.noun.parent for parameter in self._naming(outer))
        return bool(self._naming(outer)) or any(name in self.parameters for name in outer.noun.lends)

    def _naming(self, outer: "Section") -> list[Parameter]:
        return [parameter for parameter in self.inherited if outer.noun.entity in parameter.entity]


class EntryReader:
    """A reader of the entries of a zone file. Errors in the entries are recorded in ``problems``."""

    def __init__(self, nouns: Mapping[str, Noun], problems: Problems) -> None:
        self._sections = {name: Section(noun) for name, noun in nouns.items()}
        self._problems = problems
        self.entries: dict[str, list[Entry]] = {name: [] for name in nouns}

    def read(self, document: Node) -> None:
        """Read all sections of a file into ``entries``."""
        if not isinstance(document, Entries):
            self._problems.add(Where(document.line, ""), "must be a mapping of sections")
            return
        for key, node in document.nodes.items():
            if key in self._sections:
                self._read_section(self._sections[key], node, key, None)
            else:
                self._refuse_key(Where(document.key_lines[key], key), key, self._sections)

    def read_entry(self, section: str, node: Node, path: str) -> Entry:
        """Read one entry of a section, append it to ``entries``, and return it.

        ``path`` names the entry in problems.
        """
        self._read_entry(self._sections[section], node, path, None)
        return self.entries[section][-1]

    def _read_section(self, section: Section, node: Node, path: str, outer: Entry | None) -> None:
        pairs = section.noun.pairs
        if pairs is not None and isinstance(node, Entries):
            for key, value in node.nodes.items():
                line = node.key_lines[key]
                entry = Entries(line, {pairs[0]: Scalar(line, key), pairs[1]: value}, dict.fromkeys(pairs, line))
                self._read_entry(section, entry, f"{path}.{key}", outer)
        elif isinstance(node, Items) and pairs is None:
            for at, item in enumerate(node.nodes):
                self._read_entry(section, item, f"{path}[{at}]", outer)
        else:
            self._problems.add(Where(node.line, path), f"must be a {'list' if pairs is None else 'mapping'}")

    def _read_entry(self, section: Section, node: Node, path: str, outer: Entry | None) -> None:
        if not isinstance(node, Entries):
            self._problems.add(Where(node.line, path), f"must be a mapping with the keys of {section.noun.section}")
            return
        entry = Entry(section.noun, Where(node.line, path), outer)
        repeated: dict[str, list[Any]] = {}
        inner: list[tuple[Section, Node, str]] = []
        for key, child in node.nodes.items():
            where = Where(node.key_lines[key], f"{path}.{key[:LONGEST_SHOWN]}")
            if key in section.parameters:
                entry.lines[key] = where.line
                self._read_value(section, entry, key, child, repeated)
            elif key in self._sections and self._sections[key].stands_in(section):
                inner.append((self._sections[key], child, where.path))
            else:
                within = (name for name, one in self._sections.items() if one.stands_in(section))
                self._refuse_key(where, key, [*section.parameters, *within])
        self._inherit(section, entry)
        self._check(section, entry)
        self.entries[section.noun.section].extend(self._each(entry, repeated))
        for one, child, at in inner:
            if repeated:
                self._problems.add(Where(child.line, at), "cannot stand in an entry with a pattern")
            else:
                self._read_section(one, child, at, entry)

    def _refuse_key(self, where: Where, key: str, known: Any) -> None:
        near = get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
        self._problems.add(where, f"is no key here; {hint}")

    def _read_value(
        self, section: Section, entry: Entry, key: str, node: Node, repeated: dict[str, list[Any]]
    ) -> None:
        parameter = section.parameters[key]
        if isinstance(node, Scalar) and node.is_null:
            self._refuse(entry, key, "is empty: give a value or leave the key out")
            return
        text = _text(parameter, node)
        if text is None:
            self._refuse(entry, key, f"must be a value of type {parameter.type}")
        elif WireType.UUID in (parameter.type, parameter.element) and isinstance(text, str):
            named = text.split(",") if parameter.type is WireType.LIST else [text]
            entry.references[key] = tuple(name.strip() for name in named if name.strip())
        elif parameter.type is WireType.BOOLEAN and text not in ("true", "false"):
            self._refuse(entry, key, f"must be true or false, not {text!r}")
        elif entry.noun.patterns and isinstance(text, str) and patterns.PATTERN.search(text):
            self._repeat(section, entry, key, text, repeated)
        else:
            self._bind(section, entry, key, text)

    def _repeat(self, section: Section, entry: Entry, key: str, text: str, repeated: dict[str, list[Any]]) -> None:
        """Expand a text with a pattern into its values. Only the last value, which is the longest, is checked."""
        try:
            number = patterns.count(text) or 1
            if any(len(values) != number for values in repeated.values()):
                raise ValueError("must have a pattern that expands to as many texts as the entry's other pattern")  # noqa: TRY301
        except ValueError as error:
            self._refuse(entry, key, str(error))
            return
        texts = patterns.expand(text, number)
        self._bind(section, entry, key, texts[-1])
        repeated[key] = texts

    def _bind(self, section: Section, entry: Entry, key: str, text: Any) -> None:
        try:
            value = section.binder.value_of(key, text)
        except ParameterError as error:
            self._refuse(entry, key, rule_of(error))
        else:
            if value is not NOT_GIVEN:
                entry.values[key] = value

    def _inherit(self, section: Section, entry: Entry) -> None:
        """Set missing values of an entry from the nearest outer entry, or else from the defaults."""
        outer, found = entry.outer, False
        while outer is not None and not (found and entry.noun.innermost):
            for parameter in section.inherited:
                if parameter.name in entry.references:
                    continue
                if outer.noun.entity in parameter.entity:
                    entry.references[parameter.name], found = outer, True
                elif parameter.name in outer.references and not entry.noun.innermost:
                    entry.references[parameter.name] = outer.references[parameter.name]
            for name in outer.noun.lends:
                if name in section.parameters and name in outer.values:
                    entry.values.setdefault(name, outer.values[name])
            outer = outer.outer
        for name, text in entry.noun.defaults.items():
            entry.references.setdefault(name, (text,))

    def _check(self, section: Section, entry: Entry) -> None:
        given = {**entry.values, **entry.references}
        for name in section.required:
            if name not in given and name not in entry.lines:
                self._refuse(entry, name, f"key {name!r} is missing: {section.noun.create.name} must have it")
        if not entry.failed:
            try:
                section.binder.check_rules(given)
            except ParameterError as error:
                self._refuse(entry, None, rule_of(error))

    def _each(self, entry: Entry, repeated: Mapping[str, list[Any]]) -> Iterator[Entry]:
        """Yield the entry, or one entry for each value of its patterns."""
        if not repeated or entry.failed:
            yield entry
            return
        for values in zip(*repeated.values(), strict=True):
            own = {**entry.values, **dict(zip(repeated, values, strict=True))}
            yield Entry(entry.noun, entry.where, entry.outer, own, entry.references, entry.lines)

    def _refuse(self, entry: Entry, key: str | None, rule: str) -> None:
        entry.failed = True
        self._problems.add(entry.place_of(key), rule)


def rule_of(error: Exception) -> str:
    """Return the text of an error without its parameter, which the position in the file already names."""
    rule, value = getattr(error, "rule", None), getattr(error, "value", None)
    if rule is None:
        return str(error)
    if value is None:
        return str(rule)
    shown = str(value) if len(str(value)) <= LONGEST_SHOWN else f"{str(value)[:LONGEST_SHOWN]}..."
    return f"{rule}, not {shown!r}"


def _text(parameter: Parameter, node: Node) -> str | dict[str, str] | None:
    """Return a value in the format of an API call, or None if the value has the wrong form."""
    if parameter.type is WireType.MAP:
        entries = node.nodes if isinstance(node, Items) else [node]
        texts: dict[str, str] = {}
        for at, entry in enumerate(entries):
            if not isinstance(entry, Entries):
                return None
            for key, value in entry.nodes.items():
                if not isinstance(value, Scalar) or value.is_null:
                    return None
                texts[f"{parameter.name}[{at}].{key}"] = value.text
        return texts
    if isinstance(node, Items) and parameter.type in (WireType.LIST, WireType.STRING):
        items = [item.text for item in node.nodes if isinstance(item, Scalar)]
        return ",".join(items) if len(items) == len(node.nodes) else None
    return node.text if isinstance(node, Scalar) else None
