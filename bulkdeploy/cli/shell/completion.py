"""Completion of verbs, nouns, parameters, and values that are read from the server with their names.

The shell and the completion scripts of bash, zsh and fish use the same completion.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bulkdeploy.cli.arguments import declared_parameter
from bulkdeploy.cli.command_line import OPTIONS, Options, merged, parse, takes_value
from bulkdeploy.cli.connection.catalogue import Api, ApiParameter, Catalogue
from bulkdeploy.cli.connection.entities import PAGE, Entity, Source, fetch, source_of
from bulkdeploy.cli.connection.profiles import DEFAULT_PROFILE, FORMATS, SETTINGS, Connection, Kind
from bulkdeploy.cli.failures import UsageError
from bulkdeploy.cli.output.formats import printable
from bulkdeploy.cli.own_commands import OWN_COMMANDS, SHELLS, own_command
from bulkdeploy.cli.workspace import Workspace

REQUEST_TIMEOUT = 4.0  # seconds; a user who pressed Tab does not wait longer
REMEMBERED_FOR = 30.0  # seconds
DEPLOYMENTS = ("follow", "explain")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible completion, which replaces the whole word before the cursor."""

    value: str
    description: str = ""


class Completer:
    """A completer of command lines that uses the catalogue of a workspace and the lists of its servers."""

    def __init__(self, workspace: Workspace, base: Options | None = None) -> None:
        """Create a completer. ``base`` are the options with which the shell was started."""
        self.workspace, self.base = workspace, base or Options()
        self._remembered: dict[object, tuple[float, list[Entity]]] = {}

    def candidates(self, before: Sequence[str], partial: str) -> list[Candidate]:
        """Return the completions that may replace ``partial``, after the words before it.

        Raises:
            CommandFailed: the configuration is wrong, or a call to the server failed.
        """
        if before and (option := takes_value(before[-1])) is not None:
            return _starting(self._option_values(option), partial)
        if partial.startswith("-"):
            return _starting((Candidate(name, one.help or "") for one in OPTIONS for name in one.opts), partial)
        words = [word for word in _options(before).words if word != "help"]
        if not words:
            return _starting(self._first_words(before, partial), partial)
        if own_command(words) is not None:
            return _starting(self._own(words[0], words[1:], before), partial)
        catalogue = self._catalogue(before)
        found = catalogue.find(words)
        if found is None:
            nouns = catalogue.nouns_after(words[0]) if len(words) == 1 else []
            return _starting((Candidate(noun, api.description) for noun, api in nouns if noun), partial)
        api, given = found
        return self._arguments(catalogue, api, given, before, partial)

    def hint(self, before: Sequence[str]) -> tuple[Api, list[ApiParameter]] | None:
        """Return the API that a line calls and its missing required parameters, or None. No request is sent."""
        catalogue = self.workspace.known_catalogue(self._connection(before))
        found = catalogue.find(_options(before).words) if catalogue else None
        if found is None:
            return None
        api, given = found
        return api, [one for one in api.parameters if one.required and one.name not in _given_names(api, given)]

    def _first_words(self, before: Sequence[str], partial: str) -> Iterable[Candidate]:
        yield from (Candidate(one.name, one.description) for one in OWN_COMMANDS.values())
        yield Candidate("help", "help on a verb, an API or a command")
        catalogue = self._catalogue(before)
        for verb, apis in catalogue.verbs.items():
            yield Candidate(verb, f"{len(apis)} APIs" if len(apis) > 1 else apis[0].description)
        if partial and not any(verb.startswith(partial) for verb in catalogue.verbs):
            yield from (Candidate(api.name, api.description) for api in catalogue)

    def _option_values(self, option: str) -> Iterable[Candidate]:
        if option == "output":
            return map(Candidate, FORMATS)
        if option == "profile":
            return self._profiles(())
        return ()

    def _own(self, command: str, words: Sequence[str], before: Sequence[str]) -> Iterable[Candidate]:
        if command == "set" and not words:
            return (Candidate(one.name, one.description) for one in SETTINGS.values())
        if (command == "set" and words == ["profile"]) or (command == "profile" and not words):
            return self._profiles(before)
        if command == "set" and len(words) == 1 and words[0] in SETTINGS:
            kinds = {Kind.BOOLEAN: ("true", "false"), Kind.FORMAT: FORMATS}
            return map(Candidate, kinds.get(SETTINGS[words[0]].kind, ()))
        if command == "completion" and not words:
            return map(Candidate, SHELLS)
        if command in DEPLOYMENTS:
            return self._deployments(before)
        return ()

    def _profiles(self, before: Sequence[str]) -> Iterable[Candidate]:
        config = self.workspace.config(self._merged(before))
        return [Candidate(name, config.profiles.get(name, {}).get("url", ""))
                for name in sorted({*config.profiles, DEFAULT_PROFILE})]  # fmt: skip

    def _deployments(self, before: Sequence[str]) -> Iterable[Candidate]:
        connection = self._connection(before)
        api = self._catalogue(before).get("listBulkDeployments")
        if api is None or not self._may_connect(before):
            return []
        found = self._fetched(connection, Source(api, parameters={"listall": "true"}), {})
        return [
            Candidate(one.id, printable(" ".join(str(one.row.get(k) or "") for k in ("state", "asked", "created"))))
            for one in found
        ]

    def _arguments(
        self, catalogue: Catalogue, api: Api, given: Sequence[str], before: Sequence[str], partial: str
    ) -> list[Candidate]:
        name, equals, typed = partial.partition("=")
        if not equals:
            names = _given_names(api, given)
            unused = sorted(
                (one for one in api.parameters if one.name not in names), key=lambda one: not one.required
            )
            offered = [Candidate(_begun(one), _parameter_text(one)) for one in unused]
            return _starting([*offered, Candidate("filter=", "fields to show")], partial)
        head, comma, rest = typed.rpartition(",")
        parameter = api.value(name) if "[" in name else declared_parameter(api, name)
        if name.lower() == "filter" and parameter is None:
            fields = [Candidate(field, f"{kind}  {text}") for field, kind, text in api.fields]
            return _prefixed(f"{name}={head}{comma}", _starting(fields, rest))
        if parameter is None:
            return []
        if parameter.type == "boolean":
            return _prefixed(f"{name}=", _starting(map(Candidate, ("true", "false")), typed))
        source = source_of(catalogue, api, parameter, _pairs(api, given))
        if source is None or not self._may_connect(before):
            return []
        if parameter.type != "list":
            head, comma, rest = "", "", typed
        prefer_names = name.lower() != parameter.name
        entities = self._found(self._connection(before), source, rest)
        return _prefixed(f"{name}={head}{comma}", _values(entities, rest, source.by_name, prefer_names))

    def _found(self, connection: Connection, source: Source, typed: str) -> list[Entity]:
        """Return the entities of the list's first page.

        If the list has more pages, entities that match the typed text are added.
        """
        entities = self._fetched(connection, source, {})
        if typed and len(entities) >= PAGE and source.api.parameter("keyword"):
            entities = [*entities, *self._fetched(connection, source, {"keyword": typed})]
        return list({one.id or one.label: one for one in entities}.values())

    def _fetched(self, connection: Connection, source: Source, search: Mapping[str, str]) -> list[Entity]:
        key = (connection, source.api.name, tuple(sorted(source.parameters.items())), tuple(search.items()))
        when, entities = self._remembered.get(key, (float("-inf"), []))
        if time.monotonic() - when > REMEMBERED_FOR:
            transport = self.workspace.transport(connection)

            def call(command: str, parameters: Mapping[str, str]) -> dict[str, Any]:
                return transport.call(command, parameters, attempts=1, timeout=REQUEST_TIMEOUT)

            entities = fetch(source, call, search)
            self._remembered[key] = (time.monotonic(), entities)
        return entities

    def _catalogue(self, before: Sequence[str]) -> Catalogue:
        connection = self._connection(before)
        known = self.workspace.known_catalogue(connection)
        return known or self.workspace.sync(connection, attempts=1, timeout=REQUEST_TIMEOUT)

    def _may_connect(self, before: Sequence[str]) -> bool:
        return self.workspace.preferences(self._merged(before)).autocomplete

    def _connection(self, before: Sequence[str]) -> Connection:
        return self.workspace.connection(self._merged(before))

    def _merged(self, before: Sequence[str]) -> Options:
        """Return the options of the typed line. Options that the line does not contain have the shell's values."""
        return merged(self.base, _options(before))


def _values(entities: Iterable[Entity], typed: str, by_name: bool, prefer_names: bool) -> list[Candidate]:
    """Return candidates for ids, described by their names.

    If names are preferred or something was typed, names are also candidates, described by their ids.
    """
    if by_name:
        labels = {one.label: one for one in entities if one.label}
        return _starting((Candidate(label, one.id) for label, one in labels.items()), typed)
    entities = list(entities)
    by_id = [] if prefer_names else [Candidate(one.id, printable(one.label)) for one in entities if one.id]
    names = [Candidate(one.names[0], one.id) for one in entities if one.names] if typed or prefer_names else []
    return _starting([*by_id, *names], typed)


def _starting(candidates: Iterable[Candidate], partial: str) -> list[Candidate]:
    """Return the candidates that begin with the typed text, ignoring case, each once."""
    lower = partial.lower()
    fitting = (one for one in candidates if one.value.lower().startswith(lower))
    return list({one.value: one for one in fitting}.values())


def _prefixed(prefix: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    return [Candidate(prefix + one.value, one.description) for one in candidates]


def _options(before: Sequence[str]) -> Options:
    """Return the options and words before the cursor. If the line is not valid yet, only its words are returned."""
    try:
        return parse(before)
    except UsageError:
        return Options(words=tuple(word for word in before if not word.startswith("-")))


def _pairs(api: Api, given: Sequence[str]) -> dict[str, str]:
    """Return the parameters that were typed so far, by their declared names."""
    pairs = (word.partition("=") for word in given)
    return {
        parameter.name: value
        for name, equals, value in pairs
        if equals and value and (parameter := declared_parameter(api, name)) is not None
    }


def _given_names(api: Api, given: Sequence[str]) -> set[str]:
    return set(_pairs(api, [f"{word.partition('=')[0]}=given" for word in given]))


def _begun(parameter: ApiParameter) -> str:
    """Return the text that completes a parameter's name, ending with ``=`` or, for a map, with ``[0].``."""
    return f"{parameter.name}[0]." if parameter.type == "map" else f"{parameter.name}="


def _parameter_text(parameter: ApiParameter) -> str:
    return printable(f"{'required ' if parameter.required else ''}{parameter.type}  {parameter.description}")
