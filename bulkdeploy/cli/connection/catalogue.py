"""The catalogue of an API, read from listApis: its commands with parameters and response fields.

Reading is tolerant: other servers leave fields out and add empty objects (cloudstack-protocol.md 4).
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

GENERAL_PARAMETERS = frozenset({"listall", "isrecursive", "keyword", "page", "pagesize", "response"})
"""What may be given to any command without a warning: CloudMonkey's users write them everywhere."""

MAP_FIELD = re.compile(r"(?P<map>\w+)\[\d+\]\.(?P<field>\w+)")
"""One field of a map parameter, as it is written (cloudstack-protocol.md 1.1)."""
MAP_OF_THINGS = re.compile(r"(?i)\w+list|datadisksdetails|migrateto")
FIELD_WITH_ID = re.compile(r"(?i)\w+id|network|host|pool|volume|virtualmachine")

REFUSED = "not supported here: "
"""The beginning of the description of a parameter that the server describes and refuses; nothing offers it."""


@dataclass(frozen=True, slots=True)
class ApiParameter:
    """A parameter of an API.

    Attributes:
        related: list commands whose responses contain ids that are valid values.
        choices: the accepted values. Empty if any value is accepted or the server does not list them.
        length: the maximum length of the text in characters, or 0 if the server does not state it.
    """

    name: str
    type: str
    description: str
    required: bool
    related: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    length: int = 0

    @property
    def names_entities(self) -> bool:
        """Return whether the parameter's value is an id, or a list of ids."""
        return self.type == "uuid" or (self.type == "list" and self.name.endswith("ids"))


@dataclass(frozen=True)
class Api:
    """A command of the API. ``verb`` and ``noun`` are the two words that CloudMonkey uses for it."""

    name: str
    description: str
    is_async: bool
    parameters: tuple[ApiParameter, ...]
    fields: tuple[tuple[str, str, str], ...]
    """Name, type and description of the fields of its answer's objects."""

    @cached_property
    def verb(self) -> str:
        """The leading lower-case letters of the name, such as ``bulk`` of ``bulkDeployVirtualMachine``."""
        match = re.match(r"[a-z]+", self.name)
        return match.group() if match else self.name.lower()

    @cached_property
    def noun(self) -> str:
        """The name without its verb, in lower case, such as ``deployvirtualmachine``."""
        return self.name[len(self.verb) :].lower()

    @cached_property
    def only_reads(self) -> bool:
        """True if the API changes nothing, according to its verb."""
        return self.verb in ("list", "get", "query", "find")

    def parameter(self, name: str) -> ApiParameter | None:
        """Return the parameter with this name, ignoring case, or None if there is none."""
        lower = name.lower()
        return next((parameter for parameter in self.parameters if parameter.name.lower() == lower), None)

    def value(self, name: str) -> ApiParameter | None:
        """Return the parameter with a name, or the field of a map parameter, or None if there is none.

        Fields such as ``iptonetworklist[0].networkid`` are uuids if their name ends in "id". Fields of free text
        (``details``, ``tags``) are not.
        """
        field = MAP_FIELD.fullmatch(name)
        if field is None:
            return self.parameter(name)
        map_of_things = self.parameter(field["map"])
        if map_of_things is None or map_of_things.type != "map" or not MAP_OF_THINGS.fullmatch(field["map"]):
            return None
        kind = "uuid" if FIELD_WITH_ID.fullmatch(field["field"]) else "string"
        return ApiParameter(name, kind, "", required=False)


class Catalogue:
    """All APIs that a user may call."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self.by_name = {api.name.lower(): api for api in sorted(apis, key=lambda api: api.name.lower())}

    def __iter__(self) -> Iterator[Api]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def get(self, name: str) -> Api | None:
        """Return the API with this name, ignoring case, or None if there is none."""
        return self.by_name.get(name.lower())

    def find(self, words: Sequence[str]) -> tuple[Api, list[str]] | None:
        """Return the API that the first word or the first two words name, and the remaining words.

        Returns None if there is no such API.

        ``bulk deployvirtualmachine``, ``bulkdeploy virtualmachine`` and ``bulkDeployVirtualMachine`` are the same.
        A word with ``=`` is an argument and never part of the name.
        """
        for length in (1, 2):
            name = "".join(words[:length])
            if len(words) >= length and "=" not in name and name.lower() in self.by_name:
                return self.by_name[name.lower()], list(words[length:])
        return None

    @cached_property
    def verbs(self) -> dict[str, list[Api]]:
        """The APIs by verb, sorted by verb."""
        verbs: dict[str, list[Api]] = {}
        for api in self.by_name.values():
            verbs.setdefault(api.verb, []).append(api)
        return dict(sorted(verbs.items()))

    def nouns_after(self, word: str) -> list[tuple[str, Api]]:
        """Return the words that may follow a first word, with the API that each one completes.

        These are the nouns of a verb, or the remaining parts of names that begin with the word.
        """
        lower = word.lower()
        if lower in self.verbs:
            return [(api.noun, api) for api in self.verbs[lower] if api.noun]
        return [(name[len(lower) :], api) for name, api in self.by_name.items() if name.startswith(lower)]

    def similar(self, words: Sequence[str]) -> list[Api]:
        """Return up to three APIs whose names are similar to the typed words, best match first."""
        typed = "".join(word for word in words[:3] if "=" not in word).lower()
        return [self.by_name[name] for name in difflib.get_close_matches(typed, self.by_name, n=3, cutoff=0.7)]


def read_catalogue(entries: Iterable[Mapping[str, Any]]) -> Catalogue:
    """Return the catalogue in a response of listApis.

    Entries without a name and rejected parameters are left out.
    """
    return Catalogue(_api(entry) for entry in entries if isinstance(entry.get("name"), str))


def _api(entry: Mapping[str, Any]) -> Api:
    return Api(
        name=entry["name"],
        description=_line(entry.get("description")),
        is_async=entry.get("isasync") in (True, "true"),
        parameters=tuple(
            _parameter(given)
            for given in entry.get("params") or ()
            if given.get("name") and not str(given.get("description")).startswith(REFUSED)
        ),
        fields=tuple(
            (str(field["name"]), str(field.get("type") or "string"), _line(field.get("description")))
            for field in entry.get("response") or ()
            if field.get("name")
        ),
    )


def _parameter(given: Mapping[str, Any]) -> ApiParameter:
    related = str(given.get("related") or "").split(",")
    return ApiParameter(
        name=str(given["name"]),
        type=str(given.get("type") or "string").lower(),
        description=_line(given.get("description")),
        required=given.get("required") in (True, "true"),
        related=tuple(name.strip() for name in related if name.strip()),
        choices=tuple(str(word) for word in given.get("choices") or ()),
        length=int(given.get("length") or 0),
    )


def _line(text: object) -> str:
    return " ".join(str(text or "").split())
