"""CloudStack's own descriptions of the calls that are made there, and what it would refuse of a request."""

import re
from collections.abc import Mapping
from pathlib import Path

OF_ANY_CALL = frozenset({"command", "response", "apikey", "signature", "signatureversion", "expires"})

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VALUES = {
    "b": re.compile(r"true|false"),
    "i": re.compile(r"-?\d{1,9}"),
    "l": re.compile(r"-?\d{1,18}"),
    "s": re.compile(r"(?s).*"),
    "u": UUID,
}
ALL_PROJECTS = ("projectid", "-1")


def read_apis() -> dict[str, dict[str, tuple[str, str | None]]]:
    """By command and parameter: its type, and the version that brought it."""
    text = (Path(__file__).parent / "apis.txt").read_text()
    found: dict[str, dict[str, tuple[str, str | None]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            command, _, words = line.partition(":")
            named = (word.partition(":") for word in words.split())
            found[command] = {
                name: (kind.partition("@")[0], kind.partition("@")[2] or None) for name, _, kind in named
            }
    return found


APIS = read_apis()


def why_refused(command: str, parameters: Mapping[str, str], version: str = "4.22") -> str | None:
    """What a CloudStack of this version has against a request; None: nothing."""
    known = APIS.get(command)
    if known is None:
        return f"unknown API {command}"
    for name, value in parameters.items():
        plain = name.partition("[")[0].lower()
        if plain in OF_ANY_CALL:
            continue
        if plain not in known:
            return f"{command} has no parameter {name}"
        kind, since = known[plain]
        if since is not None and _number(since) > _number(version):
            return f"{command} has no parameter {name} before {since}"
        if (kind == "map") != ("[" in name):
            return f"{command}: {name} is no {kind}"
        if kind == "map" or (plain, value) == ALL_PROJECTS:
            continue
        for part in value.split(",") if kind.startswith("[") else [value]:
            if not VALUES[kind.strip("[]")].fullmatch(part):
                return f"{command}: {name}={part} is no {kind}"
    return None


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
