"""Importing a CloudStack: what it has is made, changed and removed here, in one transaction, by what calls use."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.cloudstack.client import Client, Row
from bulkdeploy.declare.noun import Noun
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.manage.upstream.nouns import ADOPTED, nouns_of_imports
from bulkdeploy.manage.upstream.reading import Rows, Upstream
from bulkdeploy.manage.upstream.removals import REMOVALS
from bulkdeploy.manage.upstream.sections import SOURCES, NotRepresented, Texts
from bulkdeploy.manage.upstream.virtual_machines import NOT_HERE, virtual_machines_of
from bulkdeploy.manage.zone_files.document import Entries, Items, Node, Problems, Scalar
from bulkdeploy.manage.zone_files.entries import Entry, EntryReader
from bulkdeploy.manage.zone_files.loading import Loader, LoadReport
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.learnt_vms import Learnt, follow_virtual_machines
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.learnt_entities import forget_learnt, learnt_before, remember_learnt
from bulkdeploy.store.live_rows import UUID_OF_ITS_OWN, change_rows

VIRTUAL_MACHINES = "virtualmachines"


@dataclass(slots=True)
class ImportReport:
    """What an import did, by section, and what it could not.

    Attributes:
        left_out: what has no place here, or was refused, each with its reason.
        incomplete: list calls that gave fewer rows than they counted: of these nothing was removed.
        calls: how many calls the CloudStack got.
    """

    created: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    calls: int = 0


class _NothingKept(Exception):
    """The transaction of a dry run is given up."""


def import_cloudstack(
    system: System, client: Client, zones: Sequence[str] = (), *, dry_run: bool = False
) -> ImportReport:
    """Make what a CloudStack has true here; what it no longer has is removed, unless a job of ours holds it.

    Importing twice changes only what has changed meanwhile. An import that was broken off is begun anew: what it
    had read is read again, and it had written nothing.

    Args:
        system: the installation.
        client: of the CloudStack, with the keys of a root admin.
        zones: names or ids of the only zones to import; none: all.
        dry_run: only say what would be done.

    Raises:
        CallRefused, NotAnswered: the CloudStack refuses to be read, or does not answer.
    """
    upstream = Upstream(client, zones)
    upstream.read()
    reports: list[ImportReport] = []

    def work(connection: Connection) -> None:
        reports.append(_Import(connection, system, client, upstream).run())
        if dry_run:
            raise _NothingKept

    with suppress(_NothingKept):
        run_transaction(system.engine, work)
    return reports[-1]


class _Import:
    def __init__(self, connection: Connection, system: System, client: Client, upstream: Upstream) -> None:
        self._connection, self._system, self._upstream = connection, system, upstream
        self._client = client
        self._caller = default_admin(connection)
        self._report = ImportReport(incomplete=sorted(upstream.incomplete))

    def run(self) -> ImportReport:
        nouns = nouns_of_imports()
        rows = self._upstream.rows
        problems = Problems("upstream")
        self._adopt_root(nouns, rows)
        entries = self._entries(nouns, rows, problems)
        loaded = Loader(self._connection, self._system, nouns, problems, ADOPTED).load_possible(entries)
        self._add(loaded)
        machines, left_out = virtual_machines_of(rows)
        self._report.left_out += left_out
        self._add_vms(follow_virtual_machines(self._connection, self._caller, machines, self._gone_vms(rows)))
        self._remove(nouns)
        remember_learnt(self._connection, self._refs(entries))
        self._report.left_out += problems.texts()
        self._report.calls = sum(self._client.calls.values())
        return self._report

    def _adopt_root(self, nouns: Mapping[str, Noun], rows: Rows) -> None:
        """The domain above all others is ours and theirs."""
        above_all = next((row for row in rows["listDomains"] if not row.get("parentdomainid")), None)
        (root,) = (
            EntityRef(Entity.DOMAIN, row["_id"], row["_uuid"], row["name"])
            for row in nouns["domains"].read(self._connection)
            if row["parentdomainid"] is None
        )
        if above_all is not None and str(root.uuid) != above_all["id"]:
            change_rows(self._connection, [(root, {UUID_OF_ITS_OWN: UUID(str(above_all["id"]))})])
            self._caller = default_admin(self._connection)

    def _entries(self, nouns: Mapping[str, Noun], rows: Rows, problems: Problems) -> Mapping[str, Sequence[Entry]]:
        reader = EntryReader(nouns, problems)
        number = 0
        for source in SOURCES:
            has_id = nouns[source.section].entity is not None
            for row in rows[source.command]:
                number += 1
                try:
                    for texts in source.entries(row, rows):
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
        refs[Entity.VIRTUAL_MACHINE] = _uuids_of_vms(self._upstream.rows)
        return refs

    def _gone_vms(self, rows: Rows) -> set[UUID]:
        if "listVirtualMachines" in self._upstream.incomplete or "listVolumes" in self._upstream.incomplete:
            return set()
        there = _uuids_of_vms(rows)
        before = learnt_before(self._connection, Entity.VIRTUAL_MACHINE)
        return {uuid for uuid in before if uuid not in there}

    def _remove(self, nouns: Mapping[str, Noun]) -> None:
        """Remove what an import brought and upstream no longer has, the innermost things first."""
        commands = {source.section: source.command for source in SOURCES}
        for section in reversed(list(nouns)):
            entity, remove = nouns[section].entity, REMOVALS.get(section)
            if entity is None or remove is None or commands[section] in self._upstream.incomplete:
                continue
            there = {UUID(str(row["id"])) for row in self._upstream.rows[commands[section]]}
            gone = [uuid for uuid in learnt_before(self._connection, entity) if uuid not in there]
            if gone:
                self._remove_each(nouns[section], gone, remove)

    def _remove_each(
        self, noun: Noun, gone: Sequence[UUID], remove: Callable[[Connection, object, Sequence[EntityRef]], object]
    ) -> None:
        entity = noun.entity
        if entity is None:
            return
        known = {row["_uuid"]: row for row in noun.read(self._connection)}
        done = [uuid for uuid in gone if uuid not in known]
        batches = [
            [EntityRef(entity, row["_id"], uuid, str(row[noun.name])) for uuid in gone if (row := known.get(uuid))]
        ]
        while batches and (refs := batches.pop()):
            try:
                with self._connection.begin_nested():
                    remove(self._connection, self._caller, refs)
            except BulkDeployError as error:
                if len(refs) > 1:  # one of them stays: the others are removed without it
                    batches += [refs[len(refs) // 2 :], refs[: len(refs) // 2]]
                    continue
                text = f"{noun.section} {refs[0].name} ({refs[0].uuid}): is gone there and stays: {error}"
                self._report.left_out.append(text)
            else:
                done += [ref.uuid for ref in refs]
                self._report.removed[noun.section] = self._report.removed.get(noun.section, 0) + len(refs)
        forget_learnt(self._connection, done)


def _uuids_of_vms(rows: Rows) -> set[UUID]:
    return {UUID(str(row["id"])) for row in rows["listVirtualMachines"] if row.get("state") not in NOT_HERE}


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
