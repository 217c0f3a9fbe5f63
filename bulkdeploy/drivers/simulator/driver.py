"""The driver for simulated hosts, which have state, capacity, latency and faults (one file: one driver).

The state is in a database of its own (``database``), and every call is one round trip and one durable transaction
in that database (``calls.sql``). The simulated duration is slept afterwards without a connection, so that few
connections suffice for hundreds of concurrent calls. A caller that dies while it waits does not undo its call, as
with a real hypervisor.
"""

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, LiteralString, Self
from uuid import UUID

import orjson
from psycopg import Connection
from typing_extensions import override

from bulkdeploy.domain.virtual_machines.device_parameters import CACHE, RATES, Device
from bulkdeploy.domain.virtual_machines.usage import HostUsage
from bulkdeploy.drivers.abilities.details import DescribedGuests, GuestDetails, GuestNic
from bulkdeploy.drivers.abilities.devices import HotPlugNics, HotPlugVolumes
from bulkdeploy.drivers.abilities.guest_agents import GuestAgents
from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.abilities.host_files import FileState, HostFile, HostFiles
from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes, ShrinkingVolumes
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.snapshots import (
    LiveSnapshots,
    MemorySnapshots,
    SnapshotSpec,
    VolumeSnapshots,
)
from bulkdeploy.drivers.abilities.starts import GuestPasswords
from bulkdeploy.drivers.abilities.storage_units import TYPES_OF_POOLS, StorageRepair, StorageUnit
from bulkdeploy.drivers.abilities.usage import UsageFigures
from bulkdeploy.drivers.abilities.volume_templates import VolumeTemplates
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.batches import Answer, BatchDriver, GuestCall
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.guests import Guest, GuestCheck, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.simulator.calls import BUSY, STEPS, SimulatedCall, made_volumes, nic_details, write_calls
from bulkdeploy.drivers.simulator.database import ensure_database
from bulkdeploy.drivers.simulator.inventory import (
    AdoptedGuest,
    SimulatedHost,
    adopt_guests,
    at_leisure,
    promising,
    set_overcommit,
    switch_on,
    sync_hosts,
)
from bulkdeploy.drivers.simulator.link import SimulatorLink
from bulkdeploy.drivers.simulator.model import read_host, read_pool_url
from bulkdeploy.drivers.simulator.options import SimulatorOptions
from bulkdeploy.drivers.simulator.usage import usage_of

ABSENT = "Absent"
"""The power state of a guest that does not exist."""

STRAYS: LiteralString = (
    "SELECT guest_uuid, host_uuid, 'Running', 1, 0, 0, '{}'::uuid[], NULL::uuid[], NULL::uuid"
    " FROM simulator.stray_guests"
)
GUESTS: LiteralString = (
    "SELECT uuid, host_uuid, power, cpu_number, cpu_mhz, memory_mib, volume_uuids, nic_uuids, iso_uuid"
    " FROM simulator.guests WHERE power <> 'Absent'"
)


class SimulatorDriver(
    DataVolumes,
    LiveMigration,
    LiveScaling,
    HotPlugVolumes,
    HotPlugNics,
    IsoDrives,
    GrowingVolumes,
    ShrinkingVolumes,
    GuestPasswords,
    HostFencing,
    UsageFigures,
    GuestAgents,
    DescribedGuests,
    MemorySnapshots,
    LiveSnapshots,
    VolumeSnapshots,
    VolumeTemplates,
    StorageRepair,
    HostFiles,
    BatchDriver,
):
    """The driver for the hypervisors in the simulator's database, which ``ensure_database`` has created.

    A call that returned survives a power failure. Calls that end together share one flush to disk (PostgreSQL's
    group commit), so throughput grows with the number of concurrent calls.

    Args:
        url: the ``postgresql://`` URL of the simulator's database.
        pool_size: the largest number of connections. A call needs one for about a millisecond.
        durable: if False, calls do not wait for the flush. They are faster, and a crash of the database server may
            undo the calls of the last half second, which tests can use as a fault.
        seed: makes faults and latencies repeatable for a single-threaded caller.
        sleep: waits for a number of seconds.
    """

    options_model = SimulatorOptions
    device_parameters = MappingProxyType({Device.DISK: frozenset({CACHE, *RATES})})
    is_watched = True
    guests_may_end = False

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        durable: bool = True,
        seed: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - dice, not secrets
        self._sleep = sleep
        self._link = SimulatorLink(url, pool_size=pool_size, durable=durable)

    @classmethod
    def from_options(cls, options: SimulatorOptions) -> Self:
        """Create the driver, and its database if the database is missing."""
        url = options.url.get_secret_value()
        ensure_database(url)
        return cls(url, pool_size=options.pool_size, durable=options.durable)

    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """Execute the calls of a batch in one transaction.

        The duration of each call is slept in its own answer.

        A start that exceeds the capacity of its host is a transient error. A forced stop takes no time, and also
        ends a guest that hangs during its shutdown. The deletion of a guest fails if the guest is on another host
        or if another guest uses one of the volumes.
        """
        ends = [SimulatedCall(STEPS[type(call)], call.host, call.fence, timeout_s) for call in calls]
        alone = [partial(self._alone, call, timeout_s) for call in calls]
        query = "SELECT number, (outcome).* FROM simulator_code.make_calls(%s::jsonb, %s) ORDER BY number"
        parameters = [write_calls([(call, self._random.random()) for call in calls]), timeout_s * 1000]
        try:
            rows = self._link.request(
                ends[0].step,
                ends[0].host_name,
                lambda connection: connection.execute(query, parameters).fetchall(),
                patience_s=timeout_s,
            )
        except DriverError as error:
            if error.unanswered or len(calls) == 1:
                return [partial(end.fail, error) for end in ends]
            return alone  # the database could not parse one of the calls
        return [
            again if row[1] == BUSY else partial(self._wait, end, row[1:])
            for end, again, row in zip(ends, alone, rows, strict=True)
        ]

    @override
    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        power = self._call(
            "SELECT * FROM simulator_code.look_at(%s, %s, %s, %s, %s)",
            [host.uuid, guest_uuid],
            SimulatedCall("look", host, fence, timeout_s),
        )
        return None if power is None or power == ABSENT else PowerState(power)

    @override
    def find_guest(self, guest_uuid: UUID) -> list[Guest]:
        query = f"{GUESTS} AND uuid = %s UNION ALL {STRAYS} WHERE guest_uuid = %s"
        rows = self._link.request(
            "look", ANY_HOST, lambda link: link.execute(query, [guest_uuid, guest_uuid]).fetchall()
        )
        return [_guest(row) for row in rows]

    @override
    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        self._call(
            "SELECT * FROM simulator_code.ensure_copy_gone(%s, %s, %s, %s, %s)",
            [host.uuid, guest_uuid],
            SimulatedCall("stop", host, fence, timeout_s),
        )

    def end_leftovers(self, host: HostAddress, kept: Collection[UUID], *, timeout_s: float) -> None:
        """Stop the guests on a host except ``kept``, with the fences that the simulator itself has stored."""
        query: LiteralString = (
            "SELECT uuid, fence FROM simulator.guests WHERE host_uuid = %(host)s OR uuid IN"
            " (SELECT guest_uuid FROM simulator.stray_guests WHERE host_uuid = %(host)s)"
        )
        given = {"host": host.uuid}
        rows = self._link.request("look", host.name, lambda link: link.execute(query, given).fetchall())
        for guest_uuid, fence in rows:
            if guest_uuid not in kept:
                self.ensure_copy_gone(host, guest_uuid, fence=fence, timeout_s=timeout_s)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume.

        Raises:
            DriverError: a guest uses the volume. The error is transient.
        """
        query = "SELECT * FROM simulator_code.ensure_volume_absent(%s, %s, %s, %s)"
        self._call(query, [pool_uuid, volume_uuid], SimulatedCall("delete", None, None, timeout_s))

    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Migrate a guest.

        Faults of the destination apply. A destination without capacity is a transient error.
        """
        self._call(
            "SELECT * FROM simulator_code.ensure_migrated(%s, %s, %s, %s, %s, %s)",
            [source.uuid, destination.uuid, guest.uuid],
            SimulatedCall("migrate", destination, fence, timeout_s),
        )

    def activity_mark(
        self, host: HostAddress, other: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float
    ) -> str | None:
        """Return a new text on each call while the host has power and running guests, which write all the time.

        Returns an empty text otherwise.
        """
        del volumes
        query: LiteralString = (
            "SELECT CASE WHEN EXISTS (SELECT FROM simulator.guests g JOIN simulator.hosts h ON h.uuid = g.host_uuid"
            " WHERE h.uuid = %s AND NOT h.is_off AND g.power = 'Running') THEN clock_timestamp()::text ELSE '' END"
        )
        ((mark,),) = self._link.request(
            "look", other.name, lambda link: link.execute(query, [host.uuid]).fetchall(), patience_s=timeout_s
        )
        return str(mark)

    def ensure_fenced(self, host: HostAddress, *, timeout_s: float) -> None:
        """Switch a host off. ``admit_host`` switches the host on again."""
        query = "SELECT simulator_code.ensure_fenced(%s)"
        self._link.request(
            "fence", host.name, lambda link: link.execute(query, [host.uuid]).fetchall(), patience_s=timeout_s
        )

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """Return an error for each host that is off or unreachable, with one query for all hosts.

        The results of other hosts are empty, because guests are not listed. Faults do not apply.
        """
        query = "SELECT uuid, is_off FROM simulator.hosts WHERE is_off OR is_cut_off"
        seen = self._link.request(
            "look", ANY_HOST, lambda link: link.execute(query).fetchall(), patience_s=timeout_s
        )
        silent = {row[0]: row[1] for row in seen}
        reasons = {True: "the host is off", False: "no route to the host"}
        return [
            DriverError("look", host.name, reasons[silent[host.uuid]], transient=True)
            if host.uuid in silent
            else ()
            for host in hosts
        ]

    def usage_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> list[HostUsage | DriverError]:
        """Return usage figures that grow with the time for which guests run. Faults do not apply."""
        return usage_of(self._link, hosts, timeout_s)

    @override
    def answers_of_guests(self, checks: Sequence[GuestCheck], *, timeout_s: float) -> Mapping[UUID, bool]:
        query = "SELECT simulator_code.answering_guests(%s::uuid[], %s::uuid[], %s, %s)"
        guests, hosts = [one.guest_uuid for one in checks], [one.host.uuid for one in checks]
        given = [guests, hosts, timeout_s * 1000, self._random.random()]
        rows = self._link.request(
            "health", ANY_HOST, lambda link: link.execute(query, given).fetchall(), patience_s=timeout_s
        )
        answering = {row[0] for row in rows}
        return {guest: guest in answering for guest in guests}

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Register a host whose hardware is given by its URL (see ``model``).

        Any credentials are accepted.

        Raises:
            DriverError: the URL is invalid.
        """
        (answer,) = self.admit_hosts([host], timeout_s=timeout_s)
        if isinstance(answer, DriverError):
            raise answer
        return answer

    def admit_hosts(self, hosts: Sequence[NewHost], *, timeout_s: float) -> list[HostModel | DriverError]:
        """Register all hosts whose URLs are valid, in one transaction."""
        answers = [read_host(host) for host in hosts]
        known = [
            promising(host.uuid, answer, host.promise)
            for host, answer in zip(hosts, answers, strict=True)
            if isinstance(answer, HostModel)
        ]
        try:
            self._link.request("connect", ANY_HOST, lambda link: switch_on(link, known), patience_s=timeout_s)
        except DriverError as error:
            return [error if isinstance(answer, HostModel) else answer for answer in answers]
        return answers

    @override
    def ensure_overcommit(
        self, host_uuids: Sequence[UUID], cpu_overcommit: Decimal, memory_overcommit: Decimal, *, timeout_s: float
    ) -> None:
        work = partial(set_overcommit, uuids=host_uuids, cpu=cpu_overcommit, memory=memory_overcommit)
        self._link.request("overcommit", ANY_HOST, work, patience_s=timeout_s)

    def pool_size_bytes(self, url: str, *, timeout_s: float) -> int:
        """Return the size of a pool in bytes, which is given by its URL (see ``model``)."""
        del timeout_s
        return read_pool_url(url)

    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Change the sizes of a running guest. A host without capacity is a transient error."""
        self._call(
            "SELECT * FROM simulator_code.ensure_scaled(%s, %s, %s, %s, %s, %s, %s, %s)",
            [host.uuid, guest.uuid, guest.cpu_number, guest.cpu_mhz, guest.memory_mib],
            SimulatedCall("scale", host, fence, timeout_s),
        )

    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Change the devices of a running guest.

        A call that fails may have created volumes, but attached none of them.
        """
        self._call(
            "SELECT done.* FROM (SELECT %s::jsonb AS nics, %s::uuid[] AS made) given,"
            " simulator_code.ensure_devices(%s, %s, %s::uuid[], %s::uuid[], %s::bigint[], %s::uuid[],"
            " %s, %s, %s, given.nics, given.made) done",
            [
                orjson.dumps(nic_details(guest)).decode(),
                made_volumes(guest),
                host.uuid,
                guest.uuid,
                [volume.uuid for volume in guest.volumes],
                [volume.pool_uuid for volume in guest.volumes],
                [volume.size_bytes for volume in guest.volumes],
                [nic.uuid for nic in guest.nics],
            ],
            SimulatedCall("devices", host, fence, timeout_s),
        )

    def ensure_drive(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Insert ``guest.iso_uuid`` into the guest's drive, or empty the drive.

        Every simulated guest has a drive.
        """
        self._call(
            "SELECT * FROM simulator_code.ensure_drive(%s, %s, %s::uuid, %s, %s, %s)",
            [host.uuid, guest.uuid, guest.iso_uuid],
            SimulatedCall("devices", host, fence, timeout_s),
        )

    @override
    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        self._call(
            "SELECT * FROM simulator_code.ensure_resized(%s, %s, %s, %s, %s, %s, %s)",
            [_uuid_of(host), guest_uuid, volume.uuid, volume.size_bytes],
            SimulatedCall("resize", host, fence, timeout_s),
        )

    @override
    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        size = self._call(
            "SELECT * FROM simulator_code.size_of(%s, %s, %s, %s, %s)",
            [guest_uuid, volume.uuid],
            SimulatedCall("look", None, fence, timeout_s),
        )
        return None if size is None else int(size)

    def ensure_snapshot(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Take a snapshot. Simulated guests have no memory that could be stored."""
        self._call(
            "SELECT * FROM simulator_code.ensure_snapshot(%s, %s, %s::uuid[], %s, %s, %s, %s)",
            [_uuid_of(host), guest.uuid, [volume.uuid for volume in snapshot.volumes_of(guest)], snapshot.uuid],
            SimulatedCall("snapshot", host, fence, timeout_s),
        )

    @override
    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        self._call(
            "SELECT * FROM simulator_code.ensure_reverted(%s, %s, %s, %s, %s, %s)",
            [_uuid_of(host), guest.uuid, snapshot.uuid],
            SimulatedCall("revert", host, fence, timeout_s),
        )

    @override
    def ensure_snapshot_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        self._call(
            "SELECT * FROM simulator_code.ensure_snapshot_absent(%s, %s, %s, %s, %s, %s)",
            [_uuid_of(host), guest.uuid, snapshot.uuid],
            SimulatedCall("delete_snapshot", host, fence, timeout_s),
        )

    @override
    def ensure_template_made(
        self, guest: GuestSpec, volume: VolumeSpec, template_uuid: UUID, *, fence: int, timeout_s: float
    ) -> None:
        self._call(
            "SELECT * FROM simulator_code.ensure_template_made(%s, %s, %s, %s, %s, %s)",
            [guest.uuid, volume.uuid, template_uuid],
            SimulatedCall("template", None, fence, timeout_s),
        )

    def list_guests(self) -> Iterator[Guest]:
        """List all guests.

        A guest that exists during the whole call is listed once, and once more for each copy on an unreachable
        host.
        """
        for row in self._link.pages(f"{STRAYS} WHERE guest_uuid > %s ORDER BY guest_uuid LIMIT %s"):
            yield _guest(row)
        for row in self._link.pages(f"{GUESTS} AND uuid > %s ORDER BY uuid LIMIT %s"):
            yield _guest(row)

    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        """List the guests of reachable hosts. Hosts that are off or cut off are added to ``unseen``."""
        query = "SELECT uuid, name FROM simulator.hosts WHERE is_off OR is_cut_off"
        rows = self._link.request("list", ANY_HOST, lambda link: link.execute(query).fetchall())
        unseen.update((uuid, f"host {name} does not answer") for uuid, name in rows)
        for guest in self.list_guests():
            if guest.host_uuid not in unseen:
                yield guest

    def details_of_guests(self, guests: Sequence[Guest]) -> Sequence[GuestDetails]:
        """Return the details of guests. Guests that were started before the simulator stored NICs are omitted."""
        query = (
            "SELECT uuid, name, template_uuid, volume_uuids, nics FROM simulator.guests"
            " WHERE uuid = ANY(%s) AND power <> 'Absent' AND nics IS NOT NULL"
        )
        uuids = [guest.uuid for guest in guests]
        rows = self._link.request("look", ANY_HOST, lambda link: link.execute(query, [uuids]).fetchall())
        return [GuestDetails(row[0], row[1], row[2], tuple(row[3]), tuple(map(_nic, row[4]))) for row in rows]

    @override
    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        query = "SELECT uuid, pool_uuid, size_bytes FROM simulator.volumes WHERE uuid > %s ORDER BY uuid LIMIT %s"
        for row in self._link.pages(query):
            yield row[0], row[1], row[2]

    def units_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[StorageUnit]:
        """Return the pools of a host with their recorded sizes. Faults do not apply."""
        pools = self._records.directory.pools_of_host(host.uuid)
        uuids = [pool.uuid for pool in pools]
        used = (
            "SELECT pool_uuid, sum(size_bytes) FROM simulator.volumes WHERE pool_uuid = ANY(%s) GROUP BY pool_uuid"
        )
        unreadable = "SELECT pool_uuid FROM simulator.broken_units WHERE host_uuid = %s"

        def look(link: Connection) -> tuple[dict[UUID, int], set[UUID]]:
            _require_reach(link, host)
            taken = {row[0]: int(row[1]) for row in link.execute(used, [uuids])}
            return taken, {row[0] for row in link.execute(unreadable, [host.uuid])}

        taken, broken = self._link.request("look", host.name, look, patience_s=timeout_s)
        return [
            StorageUnit(
                TYPES_OF_POOLS.get(pool.pool_type, pool.pool_type.lower()),
                pool.path or pool.name,
                pool.size_bytes,
                taken.get(pool.uuid, 0),
                max(pool.size_bytes - taken.get(pool.uuid, 0), 0),
                is_healthy=pool.uuid not in broken,
                pool_uuid=pool.uuid,
            )
            for pool in pools
        ]

    @override
    def repair_unit(self, host: HostAddress, unit: StorageUnit, *, timeout_s: float) -> None:
        query = "DELETE FROM simulator.broken_units WHERE host_uuid = %s AND pool_uuid = %s"
        self._link.request(
            "storage",
            host.name,
            lambda link: link.execute(query, [host.uuid, unit.pool_uuid]),
            patience_s=timeout_s,
        )

    @override
    def states_of_files(
        self, host: HostAddress, paths: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, FileState]:
        query = (
            "SELECT path, encode(sha256(content), 'hex'), mode FROM simulator.files"
            " WHERE host_uuid = %s AND path = ANY(%s)"
        )

        def look(link: Connection) -> dict[str, FileState]:
            _require_reach(link, host)
            rows = link.execute(query, [host.uuid, list(paths)])
            return {path: FileState(checksum, mode) for path, checksum, mode in rows}

        return self._link.request("files", host.name, look, patience_s=timeout_s)

    @override
    def put_file(self, host: HostAddress, file: HostFile, *, timeout_s: float) -> None:
        query = (
            "INSERT INTO simulator.files (host_uuid, path, content, mode) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (host_uuid, path) DO UPDATE SET content = excluded.content, mode = excluded.mode"
        )

        def write(link: Connection) -> None:
            _require_reach(link, host)
            link.execute(query, [host.uuid, file.path, file.content, file.mode])

        self._link.request("files", host.name, write, patience_s=timeout_s)

    def sync_hosts(self, hosts: Sequence[SimulatedHost]) -> None:
        """Add hosts, or update their sizes and limits, as ``inventory.sync_hosts`` does.

        Raises:
            DriverError: the database does not answer.
        """
        self._link.request("sync", ANY_HOST, at_leisure(lambda connection: sync_hosts(connection, hosts)))

    def adopt_guests(self, guests: Sequence[AdoptedGuest]) -> int:
        """Record guests as running, as ``inventory.adopt_guests`` does, and return how many are new.

        Raises:
            DriverError: a host is unknown, a guest contradicts the stored state, or the database does not answer.
        """
        return self._link.request(
            "adopt", ANY_HOST, at_leisure(lambda connection: adopt_guests(connection, guests))
        )

    @override
    def close(self) -> None:
        self._link.close()

    def _call(self, query: LiteralString, parameters: list[object], call: SimulatedCall) -> str | None:
        """Execute a call, sleep for its simulated duration, and return its result.

        Raises:
            DriverError: the call failed.
        """
        draw = self._random.random()
        everything = [*parameters, *([] if call.fence is None else [call.fence]), call.timeout_s * 1000, draw]
        row = self._link.request(
            call.step,
            call.host_name,
            lambda connection: connection.execute(query, everything).fetchall()[0],
            patience_s=call.timeout_s,
        )
        return call.answer(row, self._sleep)

    def _wait(self, call: SimulatedCall, row: Sequence[Any]) -> None:
        call.answer(row, self._sleep)


def _require_reach(link: Connection, host: HostAddress) -> None:
    query = "SELECT FROM simulator.hosts WHERE uuid = %s AND NOT is_off AND NOT is_cut_off"
    if link.execute(query, [host.uuid]).fetchone() is None:
        raise DriverError("look", host.name, "no route to the host", transient=True)


def _uuid_of(host: HostAddress | None) -> UUID | None:
    return None if host is None else host.uuid


def _guest(row: Sequence[Any]) -> Guest:
    nics = None if row[7] is None else frozenset(row[7])
    return Guest(row[0], row[1], PowerState(row[2]), row[3], row[4], row[5], frozenset(row[6]), nics, row[8])


def _nic(kept: Mapping[str, Any]) -> GuestNic:
    return GuestNic(UUID(kept["uuid"]), kept["mac"], UUID(kept["network"]), kept["ip"])


DRIVER = SimulatorDriver
