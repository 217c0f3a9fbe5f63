"""The inventory of the simulated hypervisors: hosts and running guests.

Many rows are written at once, by COPY into a temporary table and one statement. 25,000 hosts or 100,000 guests take
seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostModel, HostPromise


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """The hardware of a host (cores, MHz per core, MiB) and the limits for its running guests.

    The limits include over-commit, as in the ledger of the service: MHz of all cores, MiB, and number of guests.
    """

    uuid: UUID
    name: str
    cpu_cores: int
    cpu_mhz: int
    memory_mib: int
    cpu_mhz_limit: int
    memory_mib_limit: int
    guests_limit: int


@dataclass(frozen=True, slots=True)
class HostUse:
    """A host with the resources that its running guests use: MHz, MiB and number of guests."""

    host: SimulatedHost
    cpu_mhz_used: int
    memory_mib_used: int
    guests_used: int


@dataclass(frozen=True, slots=True)
class AdoptedGuest:
    """A guest that already runs on a host, with its volumes. NICs are ignored."""

    host_uuid: UUID
    spec: GuestSpec


T = TypeVar("T")

ONE_AT_A_TIME = "LOCK TABLE simulator.hosts IN SHARE UPDATE EXCLUSIVE MODE"
"""Serializes the loaders, because each locks many host rows. Calls lock one row and are not blocked."""


def sync_hosts(connection: Connection, hosts: Sequence[SimulatedHost]) -> None:
    """Add these hosts, or update the sizes and limits of existing ones.

    Other hosts are not changed.

    A limit below the current usage is accepted and only prevents further starts.
    """
    with connection.transaction():
        connection.execute(ONE_AT_A_TIME)
        connection.execute("CREATE TEMPORARY TABLE given_hosts (LIKE simulator.hosts INCLUDING DEFAULTS)")
        with connection.cursor().copy(
            "COPY given_hosts (uuid, name, cpu_cores, cpu_mhz, memory_mib, cpu_mhz_limit, memory_mib_limit,"
            " guests_limit) FROM STDIN"
        ) as copy:
            for host in hosts:
                copy.write_row((
                    host.uuid, host.name, host.cpu_cores, host.cpu_mhz, host.memory_mib,
                    host.cpu_mhz_limit, host.memory_mib_limit, host.guests_limit,
                ))  # fmt: skip
        connection.execute(
            "INSERT INTO simulator.hosts AS h SELECT * FROM given_hosts ORDER BY uuid"
            " ON CONFLICT (uuid) DO UPDATE SET name = excluded.name, cpu_cores = excluded.cpu_cores,"
            " cpu_mhz = excluded.cpu_mhz, memory_mib = excluded.memory_mib,"
            " cpu_mhz_limit = excluded.cpu_mhz_limit, memory_mib_limit = excluded.memory_mib_limit,"
            " guests_limit = excluded.guests_limit"
            " WHERE (h.name, h.cpu_cores, h.cpu_mhz, h.memory_mib, h.cpu_mhz_limit, h.memory_mib_limit,"
            "  h.guests_limit) <> (excluded.name, excluded.cpu_cores, excluded.cpu_mhz, excluded.memory_mib,"
            "  excluded.cpu_mhz_limit, excluded.memory_mib_limit, excluded.guests_limit)"
        )
        connection.execute("DROP TABLE given_hosts")


def switch_on(connection: Connection, hosts: Sequence[SimulatedHost]) -> None:
    """Add or update these hosts, as ``sync_hosts`` does, and switch them on.

    Hosts that were off or cut off accept guests again.
    """
    sync_hosts(connection, hosts)
    connection.execute(
        "UPDATE simulator.hosts SET is_off = false, is_cut_off = false"
        " WHERE uuid = ANY(%s) AND (is_off OR is_cut_off)",
        [[host.uuid for host in hosts]],
    )


def at_leisure(work: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """Return a function that runs ``work`` in one transaction without a statement timeout."""

    def all_or_nothing(connection: Connection) -> T:
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")
            return work(connection)

    return all_or_nothing


def promising(uuid: UUID, model: HostModel, promise: HostPromise) -> SimulatedHost:
    """Return a host with this hardware and the limits in ``promise``, rounded down as in the ledger."""
    return SimulatedHost(
        uuid=uuid,
        name=model.name,
        cpu_cores=model.cpu_cores,
        cpu_mhz=model.cpu_mhz,
        memory_mib=model.memory_mib,
        cpu_mhz_limit=int(model.cpu_cores * model.cpu_mhz * promise.cpu_overcommit),
        memory_mib_limit=int(model.memory_mib * promise.memory_overcommit),
        guests_limit=promise.guests_limit,
    )


def set_overcommit(connection: Connection, uuids: Sequence[UUID], cpu: Decimal, memory: Decimal) -> None:
    """Set the limits of hosts to multiples of their hardware, rounded down. Unknown hosts are skipped."""
    with connection.transaction():
        connection.execute(ONE_AT_A_TIME)
        connection.execute(
            "UPDATE simulator.hosts SET cpu_mhz_limit = floor(cpu_cores::bigint * cpu_mhz * %s::numeric),"
            " memory_mib_limit = floor(memory_mib * %s::numeric) WHERE uuid = ANY(%s)",
            [cpu, memory, list(uuids)],
        )


def adopt_guests(connection: Connection, guests: Sequence[AdoptedGuest]) -> int:
    """Record these guests as running, with their volumes, and return how many were not recorded before.

    The call may be repeated. Guests are accepted even above a host's limits, because they run already. Calls wait
    meanwhile. Either all guests are recorded or none.

    Raises:
        DriverError: a host is unknown, or a guest exists in another state or on another host.
    """
    with connection.transaction():
        connection.execute(ONE_AT_A_TIME)
        # Against calls that have looked and not yet written: see parts.sql.
        connection.execute("LOCK TABLE simulator.guests IN SHARE ROW EXCLUSIVE MODE")
        _copy_adopted(connection, guests)
        _refuse_contradictions(connection)
        connection.execute(
            "INSERT INTO simulator.volumes SELECT * FROM given_volumes ORDER BY uuid ON CONFLICT DO NOTHING"
        )
        row = connection.execute(
            "WITH adopted AS ("
            " INSERT INTO simulator.guests AS g SELECT * FROM given_guests ORDER BY uuid"
            " ON CONFLICT (uuid) DO UPDATE SET power = 'Running', host_uuid = excluded.host_uuid,"
            "  name = excluded.name, cpu_number = excluded.cpu_number, cpu_mhz = excluded.cpu_mhz,"
            "  memory_mib = excluded.memory_mib, volume_uuids = excluded.volume_uuids, changed = now()"
            "  WHERE g.power <> 'Running'"
            " RETURNING g.host_uuid, g.cpu_number::bigint * g.cpu_mhz AS cpu_mhz, g.memory_mib"
            "), sums AS ("
            " SELECT host_uuid, sum(cpu_mhz) AS cpu_mhz, sum(memory_mib) AS memory_mib, count(*) AS guests"
            " FROM adopted GROUP BY host_uuid"
            "), counted AS ("
            " UPDATE simulator.hosts h SET cpu_mhz_used = cpu_mhz_used + s.cpu_mhz,"
            "  memory_mib_used = memory_mib_used + s.memory_mib, guests_used = guests_used + s.guests"
            " FROM sums s WHERE h.uuid = s.host_uuid"
            ") SELECT count(*) FROM adopted"
        ).fetchone()
        connection.execute("DROP TABLE given_guests, given_volumes")
        return 0 if row is None else int(row[0])


def list_hosts(connection: Connection) -> list[HostUse]:
    """Return all hosts with their usage, ordered by name."""
    rows = connection.execute(
        "SELECT uuid, name, cpu_cores, cpu_mhz, memory_mib, cpu_mhz_limit, memory_mib_limit, guests_limit,"
        " cpu_mhz_used, memory_mib_used, guests_used FROM simulator.hosts ORDER BY name, uuid"
    )
    return [HostUse(SimulatedHost(*row[:8]), *row[8:]) for row in rows]


@dataclass(frozen=True, slots=True)
class PlacedGuest:
    """A guest on a host, for output: sizes in cores, MHz per core and MiB, and the number of its volumes."""

    uuid: UUID
    name: str
    host_name: str
    power: PowerState
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    volumes: int


def list_placed_guests(connection: Connection, host: str | None = None) -> list[PlacedGuest]:
    """Return all guests on hosts, or on the host with this name or uuid, ordered by host and name."""
    with connection.cursor(row_factory=class_row(PlacedGuest)) as cursor:
        return cursor.execute(
            "SELECT g.uuid, g.name, h.name AS host_name, g.power, g.cpu_number, g.cpu_mhz, g.memory_mib,"
            " cardinality(g.volume_uuids) AS volumes"
            " FROM simulator.guests g JOIN simulator.hosts h ON h.uuid = g.host_uuid"
            " WHERE %(host)s::text IS NULL OR h.name = %(host)s OR h.uuid::text = %(host)s"
            " ORDER BY h.name, g.name, g.uuid",
            {"host": host},
        ).fetchall()


def _copy_adopted(connection: Connection, guests: Sequence[AdoptedGuest]) -> None:
    connection.execute("CREATE TEMPORARY TABLE given_guests (LIKE simulator.guests INCLUDING DEFAULTS)")
    connection.execute("CREATE TEMPORARY TABLE given_volumes (LIKE simulator.volumes INCLUDING DEFAULTS)")
    with connection.cursor().copy(
        "COPY given_guests (uuid, fence, power, host_uuid, name, cpu_number, cpu_mhz, memory_mib, volume_uuids)"
        " FROM STDIN"
    ) as copy:
        for guest in guests:
            spec = guest.spec
            copy.write_row((
                spec.uuid, 0, "Running", guest.host_uuid, spec.name, spec.cpu_number, spec.cpu_mhz,
                spec.memory_mib, [volume.uuid for volume in spec.volumes],
            ))  # fmt: skip
    with connection.cursor().copy(
        "COPY given_volumes (uuid, pool_uuid, size_bytes, guest_uuid) FROM STDIN"
    ) as copy:
        for guest in guests:
            for volume in guest.spec.volumes:
                copy.write_row((volume.uuid, volume.pool_uuid, volume.size_bytes, guest.spec.uuid))


def _refuse_contradictions(connection: Connection) -> None:
    row = connection.execute(
        "SELECT coalesce(h.name, n.host_uuid::text), CASE"
        " WHEN h.uuid IS NULL THEN format('no host with uuid %s is known here', n.host_uuid)"
        " ELSE format('guest %s is there already, %s on host %s', n.uuid, g.power, g.host_uuid) END"
        " FROM given_guests n LEFT JOIN simulator.hosts h ON h.uuid = n.host_uuid"
        " LEFT JOIN simulator.guests g ON g.uuid = n.uuid AND g.power <> 'Absent'"
        " WHERE h.uuid IS NULL OR (g.power, g.host_uuid) <> ('Running', n.host_uuid) LIMIT 1"
    ).fetchone()
    if row is not None:
        raise DriverError("adopt", row[0], row[1], transient=False)
