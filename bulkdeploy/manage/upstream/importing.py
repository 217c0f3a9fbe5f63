"""The import of a CloudStack in one transaction, with the functions of API calls (one file: one comparison)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias
from uuid import UUID

import orjson
from sqlalchemy import Connection

from bulkdeploy.cloudstack.client import Client, Row
from bulkdeploy.declare.noun import Noun
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.manage.dry_run import run_or_try
from bulkdeploy.manage.upstream.needed_drivers import is_driven_by_cloudstack, require_drivers
from bulkdeploy.manage.upstream.nouns import ADOPTED, nouns_of_imports
from bulkdeploy.manage.upstream.reading import VIRTUAL_MACHINES as VMS
from bulkdeploy.manage.upstream.reading import VOLUMES, Rows, Upstream
from bulkdeploy.manage.upstream.removals import REMOVALS
from bulkdeploy.manage.upstream.sections import SOURCES, NotRepresented, Texts
from bulkdeploy.manage.upstream.virtual_machines import NO_VOLUME, NOT_HERE, virtual_machines_of
from bulkdeploy.manage.zone_files.document import Entries, Items, Node, Problems, Scalar
from bulkdeploy.manage.zone_files.entries import Entry, EntryReader
from bulkdeploy.manage.zone_files.loading import Loader, LoadReport
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.learnt_vms import Learnt, follow_virtual_machines
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.followed_clouds import database_time
from bulkdeploy.store.rows.learnt_entities import forget_learnt, learnt_among, learnt_before, remember_learnt
from bulkdeploy.store.rows.live_rows import UUID_OF_ITS_OWN, change_rows

VIRTUAL_MACHINES = "virtualmachines"

Marks: TypeAlias = Mapping[tuple[str, str], int]
"""What things were said to be when they were written: a hash by section and id."""


@dataclass(slots=True)
class ImportReport:
    """The result of an import: the numbers of created, changed and removed objects by section.

    Attributes:
        left_out: a text for each object that was not imported, with the reason.
        incomplete: list calls that returned fewer rows than they counted. No objects of these lists were removed.
        calls: the number of calls to the CloudStack.
        marks: checksums of the imported rows by section and id. The next import skips rows whose checksums are
            unchanged. Removed and rejected objects have no checksum.
    """

    created: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    calls: int = 0
    marks: dict[tuple[str, str], int] = field(default_factory=dict)


def import_cloudstack(
    system: System, client: Client, zones: Sequence[str] = (), *, dry_run: bool = False
) -> ImportReport:
    """Import all objects of a CloudStack, and remove objects that no longer exist there.

    An object that a job of this service uses is not removed. A second import writes only what has changed since the
    first. An interrupted import has written nothing and starts again from the beginning.

    Args:
        system: the installation.
        client: a client of the CloudStack with the keys of a root admin.
        zones: names or ids of the only zones to import. If empty, all zones are imported.
        dry_run: whether to roll back at the end, so that only the report is made.

    Raises:
        CallRefused: the CloudStack rejected a call.
        NotAnswered: the CloudStack did not respond.
        InvalidParameter: the CloudStack has no zone with one of the names, or the settings do not name the
            cloudstack driver for one of its hypervisor types.
    """
    reading = read_upstream(system, Upstream(client, zones))
    return run_or_try(system.engine, lambda connection: write_reading(connection, system, reading), dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class Reading:
    """The rows that were read from a CloudStack, and the database time at which the read began."""

    upstream: Upstream
    began: datetime


def read_upstream(system: System, upstream: Upstream) -> Reading:
    """Read the wanted objects of a CloudStack and return them with the time at which the read began.

    Raises:
        CallRefused: the CloudStack rejected a call.
        NotAnswered: the CloudStack did not respond.
        InvalidParameter: a named zone does not exist, or the settings do not name the cloudstack driver for the
            hypervisor types that were read.
    """
    with read_only(system.engine) as connection:
        began = database_time(connection)
    upstream.read()
    require_drivers(system, upstream.rows.get("listClusters", ()))
    return Reading(upstream, began)


def write_reading(
    connection: Connection, system: System, reading: Reading, known: Marks | None = None
) -> ImportReport:
    """Write the objects that were read from a CloudStack, in the caller's transaction, and return a report.

    Objects of completely read lists are removed if they no longer exist. Of other lists, only wanted objects that
    no longer exist are removed.

    Args:
        connection: a connection with an open transaction.
        system: the installation.
        reading: the rows of the CloudStack.
        known: the ``marks`` of the last report. Rows whose checksums are unchanged are not compared again.
    """
    return _Import(connection, system, reading, known or {}).run()


class _Import:
    def __init__(self, connection: Connection, system: System, reading: Reading, known: Marks) -> None:
        self._connection, self._system, self._began = connection, system, reading.began
        self._known = known
        self._upstream = reading.upstream
        self._caller = default_admin(connection)
        self._report = ImportReport(incomplete=sorted(self._upstream.incomplete))

    def run(self) -> ImportReport:
        nouns = nouns_of_imports()
        rows, there, wanted = self._upstream.rows, self._upstream.there, self._upstream.wanted
        problems = Problems("upstream")
        self._adopt_root(nouns, rows)
        read = {source.section for source in SOURCES if source.command in rows}
        self._report.marks = {key: mark for key, mark in self._known.items() if key[0] not in read}
        entries = self._entries(nouns, rows, problems)
        loaded = Loader(self._connection, self._system, nouns, problems, ADOPTED).load_possible(entries)
        self._add(loaded)
        for section, found in entries.items():
            for entry in found:
                if entry.failed and UUID_OF_ITS_OWN in entry.values:
                    self._report.marks.pop((section, str(entry.values[UUID_OF_ITS_OWN])), None)
        if VMS in rows:
            machines, left_out = virtual_machines_of(rows)
            self._report.left_out += left_out
            machines = replace(
                machines,
                gone_vms=self._gone(
                    Entity.VIRTUAL_MACHINE, _uuids_of_vms(there), None if wanted is None else wanted.vms
                ),
                gone_volumes=self._gone(
                    Entity.VOLUME, _uuids_of_volumes(there), None if wanted is None else wanted.volumes
                ),
                is_all=wanted is None,
            )
            learnt = follow_virtual_machines(
                self._connection,
                self._caller,
                machines,
                self._began,
                partial(is_driven_by_cloudstack, self._system),
            )
            self._add_vms(learnt)
        self._remove(nouns)
        remember_learnt(self._connection, self._refs(entries))
        self._report.left_out += problems.texts()
        self._report.calls = sum(self._upstream.client.calls.values())
        return self._report

    def _adopt_root(self, nouns: Mapping[str, Noun], rows: Rows) -> None:
        """Give the service's root domain the id of the CloudStack's root domain."""
        above_all = next((row for row in rows.get("listDomains", ()) if not row.get("parentdomainid")), None)
        if above_all is None:
            return
        (root,) = (
            EntityRef(Entity.DOMAIN, row["_id"], row["_uuid"], row["name"])
            for row in nouns["domains"].read(self._connection)
            if row["parentdomainid"] is None
        )
        if str(root.uuid) != above_all["id"]:
            change_rows(self._connection, [(root, {UUID_OF_ITS_OWN: UUID(str(above_all["id"]))})])
            self._caller = default_admin(self._connection)

    def _entries(self, nouns: Mapping[str, Noun], rows: Rows, problems: Problems) -> Mapping[str, Sequence[Entry]]:
        reader = EntryReader(nouns, problems)
        number = 0
        for source in SOURCES:
            has_id = nouns[source.section].entity is not None
            for row in rows.get(source.command, ()):
                number += 1
                try:
                    said = list(source.entries(row, rows))
                    mark, key = hash(orjson.dumps(said)), (source.section, str(row["id"]))
                    self._report.marks[key] = mark
                    if self._known.get(key) == mark:
                        continue
                    for texts in said:
                        entry = reader.read_entry(source.section, _node(number, texts), _name(source.section, row))
                        if has_id:
                            entry.values[UUID_OF_ITS_OWN] = UUID(str(row["id"]))
                except NotRepresented as error:
                    self._report.left_out.append(f"{_name(source.section, row)}: {error}")
                except (KeyError, ValueError) as error:
                    self._report.left_out.append(f"{_name(source.section, row)}: cannot be read: {error!r}")
        return {
            section: [entry for entry in found if not entry.failed] for section, found in reader.entries.items()
        }

    def _add(self, loaded: LoadReport) -> None:
        self._report.created |= loaded.created
        self._report.changed |= loaded.changed

    def _add_vms(self, learnt: Learnt) -> None:
        for counts, number in (
            (self._report.created, learnt.created),
            (self._report.changed, learnt.changed),
            (self._report.removed, learnt.removed),
        ):
            if number:
                counts[VIRTUAL_MACHINES] = number
        self._report.left_out += learnt.left_out

    def _refs(self, entries: Mapping[str, Sequence[Entry]]) -> dict[Entity, set[UUID]]:
        refs: dict[Entity, set[UUID]] = {}
        for section in entries.values():
            for entry in section:
                if entry.ref is not None and UUID_OF_ITS_OWN in entry.values:
                    refs.setdefault(entry.ref.entity, set()).add(entry.values[UUID_OF_ITS_OWN])
        if VMS in self._upstream.rows:
            refs[Entity.VIRTUAL_MACHINE] = _uuids_of_vms(self._upstream.rows)
            refs[Entity.VOLUME] = _uuids_of_volumes(self._upstream.rows)
        return refs

    def _gone(self, entity: Entity, there: set[UUID], wanted: Collection[str] | None) -> set[UUID]:
        """Return the ids of imported entities that no longer exist in the other cloud.

        If ``wanted`` is given, only these ids are compared, else all.
        """
        if self._upstream.incomplete & {VMS, VOLUMES}:
            return set()
        if wanted is None:
            return learnt_before(self._connection, entity) - there
        return learnt_among(self._connection, entity, {UUID(one) for one in wanted} - there)

    def _remove(self, nouns: Mapping[str, Noun]) -> None:
        """Remove imported objects that no longer exist in the other cloud, nested objects first."""
        commands = {source.section: source.command for source in SOURCES}
        for section in reversed(list(nouns)):
            entity, remove = nouns[section].entity, REMOVALS.get(section)
            command = commands[section]
            was_read = command in self._upstream.rows and command not in self._upstream.incomplete
            if entity is None or remove is None or not was_read:
                continue
            there = {UUID(str(row["id"])) for row in self._upstream.there[command]}
            gone = [uuid for uuid in learnt_before(self._connection, entity) if uuid not in there]
            if gone:
                self._remove_each(nouns[section], gone, remove)

    def _remove_all(
        self,
        noun: Noun,
        refs: Sequence[EntityRef],
        remove: Callable[[Connection, object, Sequence[EntityRef]], object],
    ) -> list[EntityRef]:
        """Remove objects together, and return the removed ones. If this fails, each half is removed on its own.

        Halving continues until each object that cannot be removed is found.
        """
        if not refs:
            return []
        try:
            with self._connection.begin_nested():
                remove(self._connection, self._caller, refs)
        except BulkDeployError as error:
            if len(refs) > 1:
                middle = len(refs) // 2
                return [
                    *self._remove_all(noun, refs[:middle], remove),
                    *self._remove_all(noun, refs[middle:], remove),
                ]
            (ref,) = refs
            self._report.left_out.append(
                f"{noun.section} {ref.name} ({ref.uuid}): is gone there and stays: {error}"
            )
            return []
        return list(refs)

    def _remove_each(
        self, noun: Noun, gone: Sequence[UUID], remove: Callable[[Connection, object, Sequence[EntityRef]], object]
    ) -> None:
        entity = noun.entity
        if entity is None:
            return
        known = {row["_uuid"]: row for row in noun.read(self._connection)}
        done = [uuid for uuid in gone if uuid not in known]
        refs = [
            EntityRef(entity, known[uuid]["_id"], uuid, str(known[uuid][noun.name]))
            for uuid in gone
            if uuid in known
        ]
        removed = self._remove_all(noun, refs, remove)
        done += [ref.uuid for ref in removed]
        if removed:
            self._report.removed[noun.section] = self._report.removed.get(noun.section, 0) + len(removed)
        forget_learnt(self._connection, done)


def _uuids_of_vms(rows: Rows) -> set[UUID]:
    return {UUID(str(row["id"])) for row in rows[VMS] if row.get("state") not in NOT_HERE}


def _uuids_of_volumes(rows: Rows) -> set[UUID]:
    return {UUID(str(row["id"])) for row in rows[VOLUMES] if row.get("state") not in NO_VOLUME}


def _name(section: str, row: Row) -> str:
    return f"{section} {row.get('name') or row.get('username') or ''} ({row.get('id')})"


def _node(number: int, texts: Texts) -> Entries:
    return Entries(
        number, {name: _value(number, value) for name, value in texts.items()}, dict.fromkeys(texts, number)
    )


def _value(number: int, value: object) -> Node:
    if isinstance(value, list):
        return Items(number, [_value(number, one) for one in value])
    if isinstance(value, dict):
        return _node(number, value)
    return Scalar(number, str(value))
