"""The export of a zone to a zone file. Loading the file changes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import yaml
from sqlalchemy import Connection, Engine

from bulkdeploy.commands.registry import find_nouns
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.manage.zone_files.entries import Section
from bulkdeploy.manage.zone_files.names import Names
from bulkdeploy.store.database.engine import read_only

ZONE = "zoneid"

Decrypt: TypeAlias = Callable[[bytes], str]


def export_zone(engine: Engine, zone_name: str | None = None, *, decrypt: Decrypt | None = None) -> str:
    """Return the zone file of a zone in its present state, with all objects that belong to no zone.

    ``zone_name`` may be left out if there is only one zone. API keys and password hashes are exported only if
    ``decrypt`` is given.

    Raises:
        InvalidParameter: no zone has the name, or no name is given and there are several zones.
    """
    with read_only(engine) as connection:
        return Exporter(connection, find_nouns(), decrypt).text(zone_name)


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """A written entry.

    Attributes:
        entry: the keys and values of the entry.
        around: the types of the objects that contain this entry.
        lent: the parameters that nested entries inherit and can leave out.
    """

    entry: dict[str, Any]
    around: frozenset[Entity] = frozenset()
    lent: frozenset[str] = frozenset()


class Exporter:
    """An export of zone files from one snapshot of the database."""

    def __init__(self, connection: Connection, nouns: Mapping[str, Noun], decrypt: Decrypt | None) -> None:
        self._connection, self._decrypt = connection, decrypt
        self._sections = {name: Section(noun) for name, noun in nouns.items()}
        self._names = Names(connection, nouns)
        self._written: dict[tuple[Entity, int], WrittenEntry] = {}

    def text(self, zone_name: str | None) -> str:
        """Return the text of the zone file."""
        document = WrittenEntry({})
        zone_id = self._zone_id(zone_name)
        for section in self._sections.values():
            noun = section.noun
            if self._decrypt is None and set(section.required) & set(noun.secrets):
                continue
            rows = noun.read(self._connection)
            oldest = {noun.key(row): row for row in reversed(rows)}
            for row in rows:
                if oldest[noun.key(row)] is row and noun.exports(row) and _is_of_zone(noun, row, zone_id):
                    self._place(document, section, _for_zone(row, zone_id))
        return yaml.safe_dump(
            document.entry, sort_keys=False, allow_unicode=True, width=116, default_flow_style=None
        )

    def _zone_id(self, wanted: str | None) -> int:
        rows = self._sections["zones"].noun.read(self._connection)
        names = [row["name"] for row in rows]
        found = [int(row["_id"]) for row in rows if wanted in (None, row["name"])]
        if len(found) != 1:
            raise InvalidParameter(
                "zone", wanted, f"must be the name of a zone: {', '.join(names) or 'there is none'}"
            )
        return found[0]

    def _place(self, document: WrittenEntry, section: Section, row: Mapping[str, Any]) -> None:
        """Write a row as an entry: nested in its parent's entry, else in its zone's, else at the top level."""
        noun = section.noun
        places = [row.get("_within"), *(self._place_of(section, row, name) for name in (noun.parent, ZONE))]
        innermost = next((place for place in places if place is not None), None)
        if innermost is not None and innermost[0] is not Entity.DOMAIN and innermost not in self._written:
            return  # the object is in another zone, or belongs to a project
        outer = document if innermost is None else self._written.get(innermost, document)
        entry = self._entry(section, row, outer)
        if noun.pairs is None:
            outer.entry.setdefault(noun.section, []).append(entry)
        else:
            key, value = noun.pairs
            outer.entry.setdefault(noun.section, {})[entry[key]] = entry[value]
        if noun.entity is not None:
            lent = outer.lent | set(noun.lends)
            self._written[noun.entity, row["_id"]] = WrittenEntry(entry, outer.around | {noun.entity}, lent)

    def _place_of(self, section: Section, row: Mapping[str, Any], name: str | None) -> tuple[Entity, int] | None:
        parameter = section.parameters.get(name or "")
        place = row.get(name or "")
        return None if parameter is None or not isinstance(place, int) else (parameter.entity[0], place)

    def _entry(self, section: Section, row: Mapping[str, Any], outer: WrittenEntry) -> dict[str, Any]:
        noun = section.noun
        if self._decrypt is not None and noun.reveal is not None:
            row = noun.reveal(row, self._decrypt)
        entry: dict[str, Any] = {}
        for name, parameter in section.parameters.items():
            value = row.get(name)
            if value in (None, "", [], {}) or (name in noun.secrets and self._decrypt is None):
                continue
            is_around = parameter.type is WireType.UUID and bool(outer.around & set(parameter.entity))
            if not is_around and name not in outer.lent:
                entry[name] = self._value(parameter, value)
        return entry

    def _value(self, parameter: Parameter, value: Any) -> Any:
        if parameter.entity:
            ids: Sequence[int] = value if isinstance(value, list) else [value]
            named = [self._names.paths(parameter.entity[0])[one] for one in ids]
            return named if isinstance(value, list) else named[0]
        return str(value) if isinstance(value, Decimal) else value


def _for_zone(row: Mapping[str, Any], zone_id: int) -> Mapping[str, Any]:
    """Return a row for the file of one zone: if the row belongs to several zones, only this zone is written."""
    zones = row.get(ZONE)
    return {**row, ZONE: [zone_id]} if isinstance(zones, list) and zones else row


def _is_of_zone(noun: Noun, row: Mapping[str, Any], zone_id: int) -> bool:
    if noun.entity is Entity.ZONE:
        return bool(row["_id"] == zone_id)
    zones = row.get(ZONE)
    return zone_id in zones or not zones if isinstance(zones, list) else zones in (None, zone_id)
