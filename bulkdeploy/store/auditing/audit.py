"""The invariants of the database (``audit.sql``), each with a query that finds violations.

Every query returns the violating rows as texts, and no row if the data is consistent. All queries run in one
REPEATABLE READ transaction, so that they compare data of the same moment also on a live system.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, Row, TextClause, func, select, text
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.store.tables.health import last_audit


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant of the data, with the statement that lists its violations.

    ``compared`` is the statement that counts the compared objects. ``heal`` is the statement that repairs
    violations, or None if no statement can. ``by_hand`` describes what operators do about violations that ``heal``
    does not repair.
    """

    name: str
    promise: str
    compared: str
    breaches: str
    heal: str | None
    by_hand: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of checking one invariant: the number of compared objects, the violations, and what is unknown."""

    name: str
    promise: str
    compared: int
    breaches: tuple[str, ...]
    unknown: tuple[str, ...] = ()


SECTION = re.compile(
    r"-- invariant: (?P<name>\w+)\n-- promise: (?P<promise>.+)\n"
    r"-- compared:\n(?P<compared>[^;]+);\n-- breaches:\n(?P<breaches>[^;]+);"
    r"(?:\n-- heal:\n(?P<heal>[^;]+);)?(?:\n-- by hand: (?P<by_hand>.+))?"
)


def read_invariants() -> list[Invariant]:
    """Return the invariants, in the order of ``audit.sql``."""
    sql = resources.files(__package__).joinpath("audit.sql").read_text()
    return [Invariant(**section.groupdict()) for section in SECTION.finditer(sql)]


def check_invariants(engine: Engine) -> list[Finding]:
    """Check every invariant on one snapshot of the database, and return the results."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        return check_connection(connection)


def check_connection(connection: Connection) -> list[Finding]:
    """Check every invariant in this connection's transaction, and return the results."""
    return [
        Finding(
            invariant.name,
            invariant.promise,
            int(connection.execute(text(invariant.compared)).scalar_one()),
            tuple(connection.execute(text(invariant.breaches)).scalars()),
        )
        for invariant in read_invariants()
    ]


FIRST_BREACHES = 5
"""Breaches of each promise that the record of an audit names."""


@dataclass(frozen=True, slots=True)
class LastAudit:
    """The time and the result of the last audit.

    ``broken`` lists, per violated invariant, its name, the number of violations and the first of them.
    """

    ended: datetime
    compared: int
    breaches: int
    broken: Sequence[Mapping[str, Any]]


def record_audit(connection: Connection, findings: Sequence[Finding]) -> None:
    """Write the result of an audit, which replaces the result of the previous audit."""
    broken = [
        {"promise": one.promise, "breaches": len(one.breaches), "first": one.breaches[:FIRST_BREACHES]}
        for one in findings
        if one.breaches
    ]
    written = insert(last_audit).values(
        one=True,
        ended=func.now(),
        compared=sum(one.compared for one in findings),
        breaches=sum(len(one.breaches) for one in findings),
        broken=broken,
    )
    columns = ("ended", "compared", "breaches", "broken")
    connection.execute(
        written.on_conflict_do_update(
            index_elements=["one"], set_={name: written.excluded[name] for name in columns}
        )
    )


def read_last_audit(connection: Connection) -> LastAudit | None:
    """Return the last audit, or None if there was none."""
    row = connection.execute(
        select(last_audit.c.ended, last_audit.c.compared, last_audit.c.breaches, last_audit.c.broken)
    ).one_or_none()
    return None if row is None else LastAudit(*row)


_LOCK_ALL = tuple(
    text(statement)
    for statement in (
        "SELECT FROM host_capacity ORDER BY host_id FOR UPDATE",
        "SELECT FROM account_clusters ORDER BY account_id, cluster_id FOR UPDATE",
        "SELECT FROM storage_pools ORDER BY id FOR UPDATE",
        "SELECT FROM ip_ranges ORDER BY id FOR UPDATE",
        "SELECT FROM resource_counts ORDER BY owner_kind, owner_id, resource_type FOR UPDATE",
    )
)
"""Whoever claims, releases or counts waits: what is compared while they are held stays as it is."""


def lock_for_healing(connection: Connection) -> None:
    """Prevent changes of claims, counts and addresses by other transactions until the end of this transaction."""
    for statement in _LOCK_ALL:
        connection.execute(statement)


def can_heal(invariant: Invariant, *, vm: bool, host: bool) -> bool:
    """Return whether the invariant has a repair statement that can be limited to one VM or host as requested."""
    heal = invariant.heal or ""
    return bool(heal) and not (vm and ":vm" not in heal) and not (host and ":host" not in heal)


def heal_invariant(
    connection: Connection, invariant: Invariant, *, batch: int, vm: UUID | None, host_id: int | None
) -> int:
    """Repair at most ``batch`` violations, optionally only of one VM or host; return the number of repairs."""
    heal = invariant.heal or ""
    values = {"batch": batch, "vm": vm, "host": host_id}
    used = {name: value for name, value in values.items() if f":{name}" in heal}
    return int(connection.execute(text(heal), used).scalar_one())


def hypervisors_of_hosts(connection: Connection) -> list[str]:
    """Return the hypervisor types of the existing hosts, in alphabetical order."""
    return list(
        connection.execute(
            text("SELECT DISTINCT hypervisor FROM hosts WHERE removed IS NULL ORDER BY hypervisor")
        ).scalars()
    )


@dataclass(frozen=True, slots=True)
class ExpectedGuest:
    """The expected guest of a running VM according to its rows. Sizes are in cores, MHz per core and MiB."""

    uuid: UUID
    host_uuid: UUID
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    volume_uuids: frozenset[UUID]
    nic_uuids: frozenset[UUID]


_EXPECTED_GUESTS = text(
    "SELECT v.uuid, h.uuid AS host_uuid, v.cpu_number, v.cpu_mhz, v.memory_mib,"
    "   (SELECT array_agg(x.uuid) FROM volumes x"
    "    WHERE x.vm_id = v.id AND x.removed IS NULL AND x.pool_id IS NOT NULL) AS volume_uuids,"
    "   (SELECT array_agg(n.uuid) FROM nics n WHERE n.vm_id = v.id AND n.removed IS NULL) AS nic_uuids"
    " FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
    " WHERE v.uuid = ANY(CAST(:uuids AS uuid[])) AND v.state = 'Running' AND v.removed IS NULL"
)


def expected_guests(connection: Connection, uuids: Collection[UUID]) -> Iterator[ExpectedGuest]:
    """Yield the expected guest of each VM out of ``uuids`` that is running. Other VMs are omitted."""
    for row in connection.execute(_EXPECTED_GUESTS, {"uuids": list(uuids)}):
        sizes = row.cpu_number, row.cpu_mhz, row.memory_mib
        devices = frozenset(row.volume_uuids or ()), frozenset(row.nic_uuids or ())
        yield ExpectedGuest(row.uuid, row.host_uuid, *sizes, *devices)


ROWS_AT_ONCE = 50_000

_RUNNING_VMS = text(
    "SELECT id, uuid FROM virtual_machines WHERE id > :last AND state = 'Running' AND removed IS NULL"
    " ORDER BY id LIMIT :most"
)
_READY_VOLUMES = text(
    "SELECT x.id, x.uuid, v.uuid AS vm_uuid FROM volumes x LEFT JOIN virtual_machines v ON v.id = x.vm_id"
    " WHERE x.id > :last AND x.removed IS NULL AND x.state = 'Ready' AND NOT x.standalone ORDER BY x.id LIMIT :most"
)


def running_vms(connection: Connection) -> Iterator[UUID]:
    """Yield the uuid of every VM in state Running. Rows are read in pages, to limit the memory that they need."""
    for row in _in_pages(connection, _RUNNING_VMS):
        yield row.uuid


def ready_volumes(connection: Connection) -> Iterator[tuple[UUID, UUID | None]]:
    """Yield every volume that certainly exists in its pool, with its VM's uuid or None.

    The rows are read in pages, to limit the memory that they need.
    """
    for row in _in_pages(connection, _READY_VOLUMES):
        yield row.uuid, row.vm_uuid


def _in_pages(connection: Connection, query: TextClause) -> Iterator[Row[Any]]:
    """Yield the rows of a query by id, page after page."""
    last = 0
    while rows := connection.execute(query, {"last": last, "most": ROWS_AT_ONCE}).all():
        yield from rows
        last = rows[-1].id


def unsettled_vms(connection: Connection) -> set[UUID]:
    """Return the VMs with an uncertain state on the hypervisor: a job works on them or must remove them."""
    return set(
        connection.execute(
            text(
                "SELECT instance_uuid FROM async_jobs WHERE status = 0 AND instance_uuid IS NOT NULL"
                " UNION SELECT uuid FROM virtual_machines WHERE state IN ('Expunging', 'Unknown')"
                "   AND removed IS NULL"
            )
        ).scalars()
    )


@dataclass(frozen=True, slots=True)
class ExpectedVolume:
    """A live volume as its row describes it. ``vm_uuid`` is None if the volume is attached to no VM.

    ``is_ready`` means that the volume certainly exists in its pool; a separately created volume exists only after
    the first start of a VM with it. ``is_in_use`` means that a guest runs with it. Other volumes may have a larger
    size in their rows, which their pools apply at the next start.
    """

    uuid: UUID
    vm_uuid: UUID | None
    pool_uuid: UUID | None
    size_bytes: int
    is_ready: bool
    is_in_use: bool


_EXPECTED_VOLUMES = text(
    "SELECT x.uuid, v.uuid AS vm_uuid, p.uuid AS pool_uuid, x.size_bytes, "
    " x.state = 'Ready' AND NOT x.standalone AS is_ready, coalesce(v.state = 'Running', false) AS is_in_use"
    " FROM volumes x LEFT JOIN virtual_machines v ON v.id = x.vm_id LEFT JOIN storage_pools p ON p.id = x.pool_id"
    " WHERE x.uuid = ANY(CAST(:uuids AS uuid[])) AND (x.removed IS NULL OR x.state = 'Destroy')"
)


def expected_volumes(connection: Connection, uuids: Collection[UUID]) -> Iterator[ExpectedVolume]:
    """Yield the volumes out of ``uuids`` that are live or that must still be deleted from their pools."""
    for row in connection.execute(_EXPECTED_VOLUMES, {"uuids": list(uuids)}):
        yield ExpectedVolume(row.uuid, row.vm_uuid, row.pool_uuid, row.size_bytes, row.is_ready, row.is_in_use)
