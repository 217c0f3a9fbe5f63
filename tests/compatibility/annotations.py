"""The commands, parameters and response fields that the Java source of a CloudStack release declares."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CONSTANT = re.compile(r'String\s+(\w+)\s*=\s*"([^"]*)"')
COMMAND = re.compile(r"@APICommand\s*\(")
NAME_OF_COMMAND = re.compile(r'\bname\s*=\s*(?:"(\w+)"|([\w.]+))')
ANNOTATION = re.compile(r"@Parameter\s*\(")
NAME = re.compile(r'\bname\s*=\s*(?:"([^"]+)"|([\w.]+\w))')
TYPE = re.compile(r"\b(collectionType|type)\s*=\s*(?:BaseCmd\.)?CommandType\.(\w+)")
LENGTH = re.compile(r"\blength\s*=\s*(\d+)")
REQUIRED = re.compile(r"\brequired\s*=\s*true")
FIELD = re.compile(r'@SerializedName\s*\(\s*(?:value\s*=\s*)?(?:"([^"]+)"|([\w.]+))\s*\)')
DECLARED = re.compile(r"(?:private|protected|public)?\s*([\w.]+(?:<.*>)?(?:\[\])?)\s+\w+\s*(?:=[^;]*)?$", re.DOTALL)
PARENT = re.compile(r"\bclass\s+(\w+)(?:<[^{]*?>)?\s+extends\s+([\w.]+)")
RESPONSE = re.compile(r"\bresponseObject\s*=\s*([\w.]+)\.class")
DEEPEST = 8
"""The most classes that a class inherits from."""

LONGEST = 2000
"""Characters within which the declaration of a field follows its name."""

OF_EVERY_COMMAND = frozenset({"customjobid", "response", "starteventid"})
"""Parameters of base classes, which every command or every job has; CloudStack's listApis leaves them out."""

JSON_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("int", "Integer", "long", "Long", "short", "Short", "double", "Double", "float"), "number"),
    **dict.fromkeys(("Float", "BigDecimal"), "number"),
    **dict.fromkeys(("boolean", "Boolean"), "boolean"),
    **dict.fromkeys(("List", "Set", "Collection", "ArrayList", "LinkedHashSet", "HashSet"), "list"),
    **dict.fromkeys(("Map", "HashMap", "LinkedHashMap"), "object"),
}
"""The JSON types of Java classes; classes of responses are objects, and all others strings."""


@dataclass(frozen=True, slots=True)
class JavaParameter:
    """A parameter of a command: its name as written, its type in listApis, and its rules."""

    name: str
    type: str
    required: bool = False
    length: int | None = None


@dataclass(frozen=True, slots=True)
class JavaCommand:
    """A command: the class of its response, whether it is asynchronous, and its parameters by name."""

    name: str
    response: str
    is_async: bool
    parameters: Mapping[str, JavaParameter]


@dataclass(frozen=True)
class Checkout:
    """The Java source of one release of CloudStack."""

    folder: Path

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Return the source text of each class of the API and of its plug-ins, by the name of the class."""
        roots = [self.folder / name for name in ("api", "framework", "plugins", "server")]
        return {path.stem: path.read_text() for root in roots for path in root.rglob("src/main/**/*.java")}

    @cached_property
    def constants(self) -> Mapping[str, str]:
        """Return the values of text constants, by class and name."""
        return {
            f"{name}.{constant}": value
            for name, text in self.sources.items()
            for constant, value in CONSTANT.findall(text)
        }

    @cached_property
    def classes(self) -> Mapping[str, tuple[str, ...]]:
        """Return the classes that declare each command, by the command's name; those for admins come last."""
        found: dict[str, list[str]] = {}
        for holder, text in self.sources.items():
            match = COMMAND.search(text)
            name = None if match is None else NAME_OF_COMMAND.search(_parenthesised(text, match.end()))
            if name is None:
                continue
            literal, constant = name.groups()
            value = literal or self.constants.get(constant if "." in constant else f"{holder}.{constant}")
            if value is not None:
                found.setdefault(value, []).append(holder)
        return {name: tuple(sorted(holders, key=lambda one: "Admin" in one)) for name, holders in found.items()}

    def command(self, name: str) -> JavaCommand:
        """Return the declaration of a command."""
        holder = self.classes[name][0]
        match = COMMAND.search(self.sources[holder])
        inner = "" if match is None else _parenthesised(self.sources[holder], match.end())
        response = RESPONSE.search(inner)
        return JavaCommand(
            name,
            "" if response is None else response[1].rpartition(".")[2],
            any("BaseAsync" in ancestor for ancestor in self._ancestors(holder)),
            self.parameters(name),
        )

    def parameters(self, command: str) -> Mapping[str, JavaParameter]:
        """Return the parameters of a command, by their names in lower case."""
        found: dict[str, JavaParameter] = {}
        for text in (text for holder in self.classes[command] for text in self._texts(holder)):
            for match in ANNOTATION.finditer(text):
                inner = _parenthesised(text, match.end())
                name = NAME.search(inner.replace("ApiConstants. ", "ApiConstants."))
                if name is None:
                    continue
                written = self._value(*name.groups())
                length = LENGTH.search(inner)
                found.setdefault(
                    written.lower(),
                    JavaParameter(
                        written,
                        dict(TYPE.findall(inner)).get("type", "STRING").lower(),
                        REQUIRED.search(inner) is not None,
                        None if length is None else int(length[1]),
                    ),
                )
        return {name: parameter for name, parameter in found.items() if name not in OF_EVERY_COMMAND}

    def fields(self, response: str) -> Mapping[str, str]:
        """Return the fields of a response class and of the classes that it inherits from, with their JSON types."""
        found: dict[str, str] = {}
        for text in self._texts(response):
            for match in FIELD.finditer(text):
                found.setdefault(
                    self._value(match[1], match[2]), _json_type(text[match.end() : match.end() + LONGEST])
                )
        return found

    def _ancestors(self, name: str) -> Iterator[str]:
        for _ in range(DEEPEST):
            parents = dict(PARENT.findall(self.sources.get(name, "")))
            if name not in parents:
                return
            name = parents[name].rpartition(".")[2]
            yield name

    def _texts(self, name: str) -> Iterator[str]:
        for holder in (name, *self._ancestors(name)):
            if holder in self.sources:
                yield self.sources[holder]

    def _value(self, literal: str | None, constant: str | None) -> str:
        if literal:
            return literal
        last_two = ".".join(str(constant).split(".")[-2:])
        return self.constants.get(last_two) or self.constants.get(f"ApiConstants.{constant}") or str(constant)


def _json_type(rest: str) -> str:
    """Return the JSON type of a field from the source text behind the annotation with its name."""
    declared = DECLARED.search(_without_annotations(rest).partition(";")[0].strip())
    java = "" if declared is None else declared[1]
    bare = java.partition("<")[0].rpartition(".")[2]
    if java.endswith("[]"):
        return "list"
    return JSON_TYPES.get(bare, "object" if bare.endswith("Response") else "string")


def _parenthesised(text: str, start: int) -> str:
    """Return the text from ``start`` to the parenthesis that closes the one before it; quoted ones do not count."""
    depth, quoted, position = 1, False, start
    while depth and position < len(text):
        letter = text[position]
        if letter == '"' and text[position - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (letter == "(") - (letter == ")")
        position += 1
    return text[start : position - 1]


def _without_annotations(text: str) -> str:
    while (match := re.search(r"@\w+\s*\(", text)) is not None:
        inner = _parenthesised(text, match.end())
        text = text[: match.start()] + text[match.end() + len(inner) + 1 :]
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"@\w+", "", text)
