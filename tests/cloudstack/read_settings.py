"""Reads CloudStack's global settings from a checkout and writes the list that bulkdeploy knows them by.

Run ``python -m tests.cloudstack.read_settings CHECKOUT`` from the root of this repository. The script reads names,
types, defaults, categories and scopes of all settings, and writes ``cloudstack_settings.csv`` of the product.
Settings that bulkdeploy honours have declarations of their own (``bulkdeploy/domain/configuration.py``).
"""

import csv
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from bulkdeploy.store.configuration.cloudstack_settings import SETTINGS_FILE

STRING_CONSTANT = re.compile(r'String\s+(\w+)\s*=\s*("(?:[^"\\]|\\.)*")\s*;')
NUMBER_CONSTANT = re.compile(r"(?:int|long|Integer|Long)\s+([A-Z][A-Z0-9_]+)\s*=\s*(\d+)L?\s*;")
BOXED = re.compile(r"\w+\.(?:valueOf|toString)\(([\w.]+)\)|Boolean\.(TRUE|FALSE)\.toString\(\)|(\w+)\.toString\(\)")
KEY = re.compile(r"new ConfigKey<[^(]*?>\s*\(|new ConfigKey\s*\(")
OLD_KEY = re.compile(r"^    [A-Z]\w*\(\s*\"", re.MULTILINE)
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
TYPES = {
    "String": "String",
    "Character": "String",
    "Boolean": "Boolean",
    "Integer": "Number",
    "Long": "Number",
    "Short": "Number",
    "Float": "Decimal",
    "Double": "Decimal",
}
SCOPES = ("Global", "Zone", "Cluster", "StoragePool", "ManagementServer", "ImageStore", "Domain", "Account")
COLUMNS = ("name", "type", "default", "category", "scopes")


def split_arguments(text: str, start: int) -> list[str]:
    """Return the arguments of a call whose opening parenthesis ends before ``start``, as source text."""
    depth, begin, position = 0, start, start
    found: list[str] = []
    while position < len(text):
        character = text[position]
        if character == '"':
            position += 1
            while text[position] != '"':
                position += 2 if text[position] == "\\" else 1
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            if depth == 0:
                return [*found, text[begin:position].strip()]
            depth -= 1
        elif character == "," and depth == 0:
            found.append(text[begin:position].strip())
            begin = position + 1
        position += 1
    return []


def read_settings(checkout: Path) -> Iterator[dict[str, str]]:
    """Yield each setting of a checkout, in the columns of the file."""
    texts = {path: path.read_text(errors="replace") for path in checkout.rglob("src/main/java/**/*.java")}
    constants = {
        f"{path.stem}.{name}": value.strip('"')
        for path, text in texts.items()
        for name, value in [*STRING_CONSTANT.findall(text), *NUMBER_CONSTANT.findall(text)]
    }
    for path, text in texts.items():
        local = {
            name.split(".", 1)[1]: value for name, value in constants.items() if name.startswith(f"{path.stem}.")
        }
        local |= {
            name.split(".", 1)[1]: value for name, value in constants.items() if name.startswith("ConfigKey.")
        }
        known = constants | local
        for found in KEY.finditer(text):
            setting = _setting(split_arguments(text, found.end()), known)
            if setting is not None:
                yield setting
        if path.name == "Config.java" and "enum Config" in text:
            for found in OLD_KEY.finditer(text):
                arguments = split_arguments(text, found.end() - 1)
                setting = _setting([arguments[0], *arguments[2:]], known)
                if setting is not None:
                    yield setting


def _setting(arguments: list[str], constants: Mapping[str, str]) -> dict[str, str] | None:
    if len(arguments) < 5:
        return None
    type_place = next((place for place in (0, 1) if arguments[place].endswith(".class")), None)
    if type_place is None:
        return None
    kind = TYPES.get(arguments[type_place].removesuffix(".class").rsplit(".", 1)[-1])
    category, name = (arguments[0], arguments[2]) if type_place == 1 else (arguments[2], arguments[1])
    values = [_text(argument, constants) for argument in (name, arguments[3], category)]
    if kind is None or not values[0] or NAME.fullmatch(values[0]) is None:
        return None
    if kind in ("Number", "Decimal") and values[1] and re.fullmatch(r"-?[0-9.]+", values[1]) is None:
        values[1] = None
    scopes = [scope for scope in SCOPES if any(re.search(rf"\b{scope}\b", _code(part)) for part in arguments[5:])]
    return dict(
        zip(
            COLUMNS,
            (values[0], kind, values[1] or "", values[2] or "Advanced", " ".join(scopes) or "Global"),
            strict=True,
        )
    )


def _code(argument: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', "", argument)


def _text(argument: str, constants: Mapping[str, str]) -> str | None:
    """Return the text that an expression of literals and constants gives, or None if it is anything else."""
    parts = []
    for part in re.findall(r'"(?:[^"\\]|\\.)*"|[\w.]+(?:\([^()]*\))?', argument):
        if part.startswith('"'):
            parts.append(part[1:-1].encode().decode("unicode_escape"))
        elif (value := constants.get(".".join(part.split(".")[-2:]), constants.get(part))) is not None:
            parts.append(value)
        elif (boxed := BOXED.fullmatch(part)) is not None:
            inner = next(group for group in boxed.groups() if group)
            parts.append(constants.get(".".join(inner.split(".")[-2:]), constants.get(inner, inner.lower())))
        else:
            return None
    return "".join(parts) if parts else None


def main() -> None:
    """Write the file."""
    found = read_settings(Path(sys.argv[1]))
    settings = {setting["name"]: setting for setting in found if setting["category"] != "Hidden"}
    with SETTINGS_FILE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(settings[name] for name in sorted(settings))
    sys.stdout.write(f"{len(settings)} settings\n")


if __name__ == "__main__":
    main()
