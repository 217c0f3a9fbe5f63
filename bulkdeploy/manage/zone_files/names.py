"""Names in a zone file: the name of an object, or a path of names that begins with the zone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Noun
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.rows.live_rows import reader

NAME = "name"


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object with its reference, its path (``zone/pod/cluster``) and its row."""

    ref: EntityRef
    path: str
    row: Mapping[str, Any]


class Names:
    """A lookup of existing objects by name.

    Objects of a type are cached until ``forget`` is called for the type.
    """

    def __init__(self, connection: Connection, nouns: Mapping[str, Noun]) -> None:
        self._connection = connection
        self._nouns = {noun.entity: noun for noun in nouns.values() if noun.entity is not None}
        self._by_name: dict[Entity, dict[str, list[NamedObject]]] = {}

    def forget(self, entity: Entity | None) -> None:
        """Remove objects of this type from the cache, so that the next lookup reads them again."""
        if entity is not None:
            self._by_name.pop(entity, None)

    def find(self, kinds: Sequence[Entity], text: str, around: Mapping[str, Any]) -> list[EntityRef]:
        """Return the entities of these types that match a name, a path or a uuid.

        If several match, the entities inside ``around`` (internal ids by parameter) are returned, or all if none is
        inside.
        """
        found = [named for kind in kinds for named in self._named(kind, text)]
        if len(found) > 1:
            found = [
                named
                for named in found
                if all(named.row.get(name) in (None, value) for name, value in around.items())
            ] or found
        return [named.ref for named in found]

    def paths(self, entity: Entity) -> dict[int, str]:
        """Return the path of every existing object of a type by internal id."""
        return {named.ref.id: named.path for alike in self._of(entity).values() for named in alike}

    def refs(self, entity: Entity) -> dict[int, EntityRef]:
        """Return the reference to every existing object of a type by internal id."""
        return {named.ref.id: named.ref for alike in self._of(entity).values() for named in alike}

    def _named(self, entity: Entity, text: str) -> list[NamedObject]:
        known = self._of(entity)
        if text in known:
            return known[text]
        alike = known.get(text.rpartition("/")[2], ())
        return [
            one
            for one in (*alike, *known.get(text.lower(), ()))
            if one.path.endswith(f"/{text}") or one.path == text or str(one.ref.uuid) == text.lower()
        ]

    def _of(self, entity: Entity) -> dict[str, list[NamedObject]]:
        """Return the objects of a kind by name and by uuid."""
        if entity not in self._by_name:
            by_name: dict[str, list[NamedObject]] = {}
            for named in self._read(entity):
                by_name.setdefault(named.ref.name, []).append(named)
                by_name.setdefault(str(named.ref.uuid), []).append(named)
            self._by_name[entity] = by_name
        return self._by_name[entity]

    def _read(self, entity: Entity) -> list[NamedObject]:
        noun = self._nouns.get(entity)
        if noun is None:
            found = reader(entity)(self._connection)
            return [NamedObject(ref_of(entity, row, NAME), str(row[NAME]), {}) for row in found]
        rows = noun.read(self._connection)
        parents = self._parents(noun, rows)
        return [NamedObject(ref_of(entity, row, noun.name), parents(row), row) for row in rows]

    def _parents(self, noun: Noun, rows: Sequence[Mapping[str, Any]]) -> Any:
        if noun.parent is None:
            return lambda row: str(row[noun.name])
        (kind,) = next(one.entity for one in noun.create.parameters if one.name == noun.parent)
        own = {row["_id"]: row for row in rows}
        outer = {} if kind is noun.entity else self.paths(kind)

        def path(row: Mapping[str, Any]) -> str:
            parent = row[str(noun.parent)]
            above = path(own[parent]) if kind is noun.entity and parent in own else outer.get(parent)
            return str(row[noun.name]) if above is None else f"{above}/{row[noun.name]}"

        return path


def ref_of(entity: Entity, row: Mapping[str, Any], name: str) -> EntityRef:
    """Return the reference to the object of a row."""
    return EntityRef(entity, row["_id"], row["_uuid"], str(row[name]))
