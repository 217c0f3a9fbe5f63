"""Loading a zone file: creates missing objects and changes different ones (one file: one load).

If one entry is wrong, nothing is changed.
"""

import errno
import sys
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection

from bulkdeploy.commands.registry import find_nouns
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.parameters import details_of
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import BulkDeployError, InvalidInventory
from bulkdeploy.manage.zone_files.document import Problems, read_document
from bulkdeploy.manage.zone_files.entries import Entry, EntryReader, rule_of
from bulkdeploy.manage.zone_files.names import Names, ref_of
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.rows.live_rows import UUID_OF_ITS_OWN, change_rows, own_uuid

IN_EACH_ZONE = (Entity.TEMPLATE, Entity.ISO)
"""What has one entry for each zone that has it."""

STANDARD_INPUT = Path("-")


class BoundEntry(NamedTuple):
    """An entry with its values, resolved references, and the key that identifies its row."""

    entry: Entry
    values: dict[str, Any]
    key: Hashable


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The numbers of objects that a load created and changed, by section; both are empty if all existed."""

    created: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)


def _read_standard_input() -> bytes:
    buffer = getattr(sys.stdin, "buffer", None)  # Python has no standard input if the shell has closed it
    if buffer is None:
        raise OSError(errno.EBADF, "it is closed")
    return bytes(buffer.read())


def load_zone_file(system: System, path: Path) -> LoadReport:
    """Create and change objects in one transaction so that they match a zone file. Other objects are not changed.

    The path ``-`` is standard input. Loading a file twice changes nothing.

    Raises:
        InvalidInventory: the file breaks rules. The error contains the line and key of each problem. Nothing was
            written.
    """
    name = "standard input" if path == STANDARD_INPUT else path.name
    try:
        data = _read_standard_input() if path == STANDARD_INPUT else path.read_bytes()
    except OSError as error:
        raise InvalidInventory([f"{name}: the file cannot be read: {error.strerror}"]) from error
    nouns = find_nouns()
    entries = read_entries(nouns, name, data)

    def work(connection: Connection) -> LoadReport:
        return Loader(connection, system, nouns, Problems(name)).load(entries)

    return run_transaction(system.engine, work)


def read_entries(nouns: Mapping[str, Noun], file: str, data: bytes) -> Mapping[str, Sequence[Entry]]:
    """Return the entries of a file by section. All rules that do not need the database are checked.

    Raises:
        InvalidInventory: the file breaks rules.
    """
    problems = Problems(file)
    reader = EntryReader(nouns, problems)
    reader.read(read_document(file, data, problems))
    problems.refuse_if_any()
    return reader.entries


class Loader:
    """The load of a zone file in one transaction."""

    def __init__(
        self,
        connection: Connection,
        system: System,
        nouns: Mapping[str, Noun],
        problems: Problems,
        adopted: Container[str] = (),
    ) -> None:
        """Create a loader.

        ``adopted`` are sections in which an existing object with an entry's name gets the id of the entry.
        """
        self._connection, self._system, self._nouns, self._problems = connection, system, nouns, problems
        self._adopted = adopted
        self._caller = default_admin(connection)
        self._names = Names(connection, nouns)
        self._report = LoadReport()
        self._zones: set[int] = set()
        self._last: dict[str, list[BoundEntry]] = {}

    def load(self, entries: Mapping[str, Sequence[Entry]]) -> LoadReport:
        """Create and change objects so that they match the entries.

        Raises:
            InvalidInventory: some entries break rules. The transaction must be rolled back.
        """
        report = self.load_possible(entries)
        self._problems.refuse_if_any()
        return report

    def load_possible(self, entries: Mapping[str, Sequence[Entry]]) -> LoadReport:
        """Load the valid entries as ``load`` does. Rejected entries are left out and recorded in the problems."""
        take_lock(self._connection, Lock.ZONE_FILE)
        for section, noun in self._nouns.items():
            for entry in entries[section]:
                entry.ref, entry.failed = None, False
            if entries[section]:
                self._load_section(noun, entries[section])
            if noun.entity is Entity.ZONE:
                self._zones = {entry.ref.id for entry in entries[section] if entry.ref is not None}
        for deferred in self._last.values():
            self._attempt(deferred, self._change)
        return self._report

    def _load_section(self, noun: Noun, entries: Sequence[Entry]) -> None:
        """Load the entries of a section in rounds.

        An entry that refers to another entry waits until that one is loaded.
        """
        present = _by_key(noun, noun.read(self._connection))
        seen: dict[Hashable, Entry] = {}
        waiting: Sequence[Entry] = entries
        while waiting:
            bound = [(entry, self._bind(entry, last=False)) for entry in waiting]
            ready = [BoundEntry(entry, values, _key(noun, values)) for entry, values in bound if values is not None]
            if not ready:
                for entry in waiting:
                    self._bind(entry, last=True)
                return
            self._write(noun, [one for one in ready if self._is_first(one, seen)], present)
            waiting = [entry for entry, values in bound if values is None and not entry.failed]
            self._names.forget(noun.entity)

    def _is_first(self, bound: BoundEntry, seen: dict[Hashable, Entry]) -> bool:
        entry = bound.entry
        first = seen.setdefault(bound.key, entry)
        if first is entry:
            return True
        self._refuse(entry, None, f"is the same as in line {first.where.line}")
        return False

    def _bind(self, entry: Entry, *, last: bool) -> dict[str, Any] | None:
        """Return the values of an entry with its resolved references.

        Returns None if the entry must wait for another entry, or if the entry is rejected.
        """
        values = dict(entry.values)
        # References to containing objects come first, because they decide between objects with one name.
        for name, reference in sorted(entry.references.items(), key=lambda one: isinstance(one[1], tuple)):
            if isinstance(reference, Entry):
                if reference.ref is None:
                    entry.failed = reference.failed
                    return None
                values[name] = reference.ref
                continue
            around = {
                known: _plain(value)
                for known, value in values.items()
                if isinstance(value, EntityRef) or known in lent_names(entry)
            }
            refs = [self._find(entry, name, text, around, last=last) for text in reference]
            if any(ref is None for ref in refs):
                return None
            values[name] = tuple(refs) if _is_list(entry.noun, name) else refs[0]
        return values

    def _find(
        self, entry: Entry, name: str, text: str, around: Mapping[str, Any], *, last: bool
    ) -> EntityRef | None:
        kinds = _kinds(entry.noun, name)
        found = self._names.find(kinds, text, around)
        if len(found) == 1:
            return found[0]
        if found:
            self._refuse(entry, name, f"{text!r} names {len(found)} things; write a path such as outer/{text}")
        elif last or entry.noun.entity not in kinds:
            what = " or ".join(kind.name.lower().replace("_", " ") for kind in kinds)
            self._refuse(entry, name, f"must be the name of a {what}: there is no {text!r}")
        return None

    def _write(
        self, noun: Noun, ready: Sequence[BoundEntry], present: Mapping[Hashable, Mapping[str, Any]]
    ) -> None:
        fresh: list[BoundEntry] = []
        changes: list[BoundEntry] = []
        for one in ready:
            entry, values, key = one
            row = present.get(key)
            if row is None and noun.section in self._adopted:
                row = self._adopt(noun, values, present)
            if row is None:
                fresh.append(one)
                continue
            if noun.entity is not None:
                entry.ref = ref_of(noun.entity, row, noun.name)
            if noun.section in self._adopted and not noun.exports(row):
                continue  # the object exists in every installation
            values = self._with_other_zones(noun, values, row)
            differing = self._difference(entry, values, row)
            if differing:
                changes.append(BoundEntry(entry, values if noun.update is None else differing, key))
        fresh, changes = self._without_last(noun, fresh), self._without_last(noun, changes)
        made = self._attempt(fresh, self._create)
        self._count(self._report.created, noun, made)
        self._attempt([one for one in _beyond_create(noun, made) if one.values], self._change)
        self._count(self._report.changed, noun, self._attempt(changes, self._change))

    def _adopt(
        self, noun: Noun, values: dict[str, Any], present: Mapping[Hashable, Mapping[str, Any]]
    ) -> Mapping[str, Any] | None:
        """Return the existing row with the entry's name, or None. The row gets the id of the entry."""
        row = present.get(noun.key({name: _plain(value) for name, value in values.items()}))
        if row is None or noun.entity is None:
            return row
        change_rows(self._connection, [(ref_of(noun.entity, row, noun.name), own_uuid(values))])
        return {**row, "_uuid": values[UUID_OF_ITS_OWN]}

    def _without_last(self, noun: Noun, batch: list[BoundEntry]) -> list[BoundEntry]:
        """Remove values that must be set after everything else is loaded, and return the batch.

        The values are stored for then.
        """
        if not noun.last:
            return batch
        for one in batch:
            deferred = {
                name: one.values.pop(name)
                for name, harmless in noun.last.items()
                if one.values.get(name, harmless) != harmless
            }
            if deferred:
                self._last.setdefault(noun.section, []).append(BoundEntry(one.entry, deferred, one.key))
        return batch

    def _with_other_zones(self, noun: Noun, values: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values with the other zones of the row added, which this zone file does not describe."""
        found = dict(values)
        for name, value in values.items() if self._zones else ():
            if (
                value
                and isinstance(value, tuple)
                and isinstance(row.get(name), list)
                and _kinds(noun, name) == (Entity.ZONE,)
            ):
                others = self._names.refs(Entity.ZONE)
                kept = [others[one] for one in row[name] if one not in self._zones and one in others]
                found[name] = tuple(dict.fromkeys((*value, *kept)))
        return found

    def _difference(self, entry: Entry, values: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of an entry that differ from the row."""
        noun = entry.noun
        changeable = {
            parameter.name for parameter in (*(noun.update.parameters if noun.update else ()), *noun.more)
        }
        found: dict[str, Any] = {}
        for name, value in values.items():
            into_one_form = noun.compare.get(name, _plain)
            if name not in row or into_one_form(value) == into_one_form(row[name]):
                continue
            found[name] = value
            if noun.update is not None and name not in changeable:
                self._refuse(entry, name, f"is {row[name]!r} and cannot be changed")
        return {} if entry.failed else found

    def _attempt(
        self, batch: Sequence[BoundEntry], work: Callable[[Sequence[BoundEntry]], None]
    ) -> list[BoundEntry]:
        """Do the work for a batch of entries, and return the entries for which it succeeded.

        If the work fails, each half is tried on its own, until each wrong entry is known.
        """
        if not batch:
            return []
        try:
            with self._connection.begin_nested():
                work(batch)
        except BulkDeployError as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                return [*self._attempt(batch[:middle], work), *self._attempt(batch[middle:], work)]
            entry = batch[0].entry
            self._refuse(entry, getattr(error, "parameter", None), rule_of(error))
            return []
        return list(batch)

    def _create(self, batch: Sequence[BoundEntry]) -> None:
        noun = batch[0].entry.noun
        declared = {*_created_with(noun), UUID_OF_ITS_OWN}
        given: Sequence[Any] = [
            {name: value for name, value in one.values.items() if name in declared} for one in batch
        ]
        if noun.prepare is not None:
            given = noun.prepare(self._connection, self._system, given)
        made = noun.create_many(self._connection, self._caller, given)
        if noun.entity is not None:
            for one, ref in zip(batch, made, strict=True):
                one.entry.ref = ref

    def _change(self, batch: Sequence[BoundEntry]) -> None:
        noun = batch[0].entry.noun
        if noun.update_many is None:
            self._create(batch)
        else:
            changes = [(entry.ref, values) for entry, values, _ in batch if entry.ref is not None]
            noun.update_many(self._connection, self._caller, changes)

    def _count(self, counts: dict[str, int], noun: Noun, counted: Sequence[BoundEntry]) -> None:
        if counted:
            counts[noun.section] = counts.get(noun.section, 0) + len(counted)

    def _refuse(self, entry: Entry, parameter: str | None, rule: str) -> None:
        entry.failed = True
        self._problems.add(entry.place_of(parameter), rule)


def lent_names(entry: Entry) -> frozenset[str]:
    """Return the names of the parameters that an entry takes from its outer entries."""
    outer, names = entry.outer, frozenset[str]()
    while outer is not None:
        names, outer = names | frozenset(outer.noun.lends), outer.outer
    return names


def _created_with(noun: Noun) -> frozenset[str]:
    """Return the parameters with which an object is created. Other parameters are set by a later change."""
    return frozenset(parameter.name for parameter in (*noun.create.parameters, *noun.more))


def _beyond_create(noun: Noun, made: Sequence[BoundEntry]) -> Iterator[BoundEntry]:
    """Yield the values that only a change, not the creation, can set."""
    declared = {*_created_with(noun), UUID_OF_ITS_OWN}
    for entry, values, key in made if noun.update is not None else ():
        yield BoundEntry(entry, {name: value for name, value in values.items() if name not in declared}, key)


def _by_key(noun: Noun, rows: Sequence[Mapping[str, Any]]) -> dict[Hashable, Mapping[str, Any]]:
    """Return rows by the key that an entry of the same object has.

    If several rows have a key, the oldest is returned.
    """
    by_key: dict[Hashable, Mapping[str, Any]] = {noun.key(row): row for row in reversed(rows)}
    if noun.entity is not None:
        by_key |= {(row["_uuid"], row.get("zoneid") if noun.entity in IN_EACH_ZONE else None): row for row in rows}
    return by_key


def _key(noun: Noun, values: Mapping[str, Any]) -> Hashable:
    if UUID_OF_ITS_OWN in values:
        zone = _plain(values.get("zoneid")) if noun.entity in IN_EACH_ZONE else None
        return values[UUID_OF_ITS_OWN], zone
    return noun.key({name: _plain(value) for name, value in values.items()})


def _plain(value: Any) -> Any:
    """Return a value of an entry or of a row in a form in which both can be compared."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, EntityRef):
        return value.id
    if isinstance(value, tuple) and value and all(isinstance(one, dict) for one in value):
        return details_of(value)
    if isinstance(value, tuple | list):
        plain = [_plain(one) for one in value]
        return sorted(plain) if all(isinstance(one, int | str) for one in plain) else plain
    if isinstance(value, Decimal):
        return float(value)
    return None if value == {} else value


def _parameter(noun: Noun, name: str) -> Any:
    declared = (*noun.create.parameters, *(noun.update.parameters if noun.update else ()), *noun.more)
    return next(parameter for parameter in declared if parameter.name == name)


def _kinds(noun: Noun, name: str) -> Any:
    return _parameter(noun, name).entity


def _is_list(noun: Noun, name: str) -> bool:
    return bool(_parameter(noun, name).element)
