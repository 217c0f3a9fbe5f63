"""The embedded hypervisor: simulated hosts with a memory, a capacity and a temper of their own.

State lies in a database apart from the product's (``simulator_database``) and every call is one round trip and
one durable transaction there (``simulator_calls.sql``). Time that steps take is slept afterwards, without a
connection, so that hundreds of calls in flight need few of them. That is also how a real hypervisor behaves
towards a caller that dies while it waits: what it was asked to do gets done.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import LiteralString
from uuid import UUID

from bulkdeploy.drivers.driver import (
    DriverError,
    Guest,
    GuestSpec,
    HostAccess,
    HostAddress,
    HostModel,
    HostPromise,
    PowerState,
    StaleFence,
)
from bulkdeploy.drivers.simulator_inventory import (
    AdoptedGuest,
    SimulatedHost,
    adopt_guests,
    at_leisure,
    promising,
    set_overcommit,
    sync_hosts,
)
from bulkdeploy.drivers.simulator_link import ANY_HOST, SimulatorLink
from bulkdeploy.drivers.simulator_model import read_host_url, read_pool_url

ABSENT = "Absent"
"""The power of a guest that is not there."""


class SimulatorDriver:
    """A HypervisorDriver over the simulator's database, which ``ensure_database`` has made.

    An answered call survives a power cut. Flushes of calls that end together are one flush
    (PostgreSQL's group commit), so throughput grows with the calls in flight. ``durable=False``
    does not wait for the flush: a crash of the database server may then take back the last half
    second of answered calls, which is a failure worth trying, and faster.

    Args:
        url: ``postgresql://`` URL of the simulator's database.
        pool_size: most connections held; a call needs one for about a millisecond.
        durable: see above.
        seed: makes faults and latencies repeatable for a single-threaded caller.
        sleep: what passes the time, in seconds.
    """

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

    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver. Refuses what exceeds the host's capacity (transient: elsewhere is room)."""
        sizes = [guest.name, guest.cpu_number, guest.cpu_mhz, guest.memory_mib]
        self._call(
            "SELECT * FROM simulator_code.ensure_running(%s, %s, %s, %s, %s, %s,"
            " %s::uuid[], %s::uuid[], %s::bigint[],"
            " p_nics => %s::uuid[], p_fence => %s, p_timeout_ms => %s, p_draw => %s)",
            [host.uuid, guest.uuid, *sizes, *_devices(guest)],
            _Call("boot", host, fence, timeout_s),
        )

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver. ``forced`` takes no time and ends a guest that hangs in its shutdown."""
        self._call(
            "SELECT * FROM simulator_code.ensure_stopped(%s, %s, %s, %s, %s, %s)",
            [host.uuid, guest_uuid, forced],
            _Call("stop", host, fence, timeout_s),
        )

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """See HypervisorDriver."""
        power = self._call(
            "SELECT * FROM simulator_code.look_at(%s, %s, %s, %s, %s)",
            [host.uuid, guest_uuid],
            _Call("look", host, fence, timeout_s),
        )
        return None if power is None or power == ABSENT else PowerState(power)

    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        """See HypervisorDriver. Refuses where the guest is on another host, or another uses a volume."""
        self._call(
            "SELECT * FROM simulator_code.ensure_absent(%s, %s, %s, %s, %s, %s)",
            [None if host is None else host.uuid, guest_uuid, list(volume_uuids)],
            _Call("delete", host, fence, timeout_s),
        )

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """See HypervisorDriver. Refuses while a guest uses it (transient)."""
        query = "SELECT * FROM simulator_code.ensure_volume_absent(%s, %s, %s, %s)"
        self._call(query, [pool_uuid, volume_uuid], _Call("delete", None, None, timeout_s))

    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver. Faults strike at the destination; one without room refuses (transient)."""
        self._call(
            "SELECT * FROM simulator_code.ensure_migrated(%s, %s, %s, %s, %s, %s)",
            [source.uuid, destination.uuid, guest.uuid],
            _Call("migrate", destination, fence, timeout_s),
        )

    def admit_host(
        self, host_uuid: UUID, hypervisor: str, access: HostAccess, promise: HostPromise, *, timeout_s: float
    ) -> HostModel:
        """See HypervisorDriver. The url says what the host is (``simulator_model``); everybody may log in."""
        del hypervisor
        model = read_host_url(access.url, host_uuid)
        host = promising(host_uuid, model, promise)
        self._link.ask("connect", model.name, lambda link: sync_hosts(link, [host]), patience_s=timeout_s)
        return model

    def ensure_overcommit(
        self, host_uuids: Sequence[UUID], cpu_overcommit: Decimal, memory_overcommit: Decimal, *, timeout_s: float
    ) -> None:
        """See HypervisorDriver."""
        work = partial(set_overcommit, uuids=host_uuids, cpu=cpu_overcommit, memory=memory_overcommit)
        self._link.ask("overcommit", ANY_HOST, work, patience_s=timeout_s)

    def pool_size_bytes(self, url: str, *, timeout_s: float) -> int:
        """See HypervisorDriver. The url says how large it is (``simulator_model``)."""
        del timeout_s
        return read_pool_url(url)

    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver. A host without room refuses (transient)."""
        self._call(
            "SELECT * FROM simulator_code.ensure_scaled(%s, %s, %s, %s, %s, %s, %s, %s)",
            [host.uuid, guest.uuid, guest.cpu_number, guest.cpu_mhz, guest.memory_mib],
            _Call("scale", host, fence, timeout_s),
        )

    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver. A call that fails has made the volumes and plugged none."""
        self._call(
            "SELECT * FROM simulator_code.ensure_devices(%s, %s, %s::uuid[], %s::uuid[], %s::bigint[], %s::uuid[],"
            " %s, %s, %s)",
            [host.uuid, guest.uuid, *_devices(guest)],
            _Call("devices", host, fence, timeout_s),
        )

    def list_guests(self) -> Iterator[Guest]:
        """See HypervisorDriver. One that is there all the while is listed once."""
        for row in self._link.pages(
            "SELECT uuid, host_uuid, power, cpu_number, cpu_mhz, memory_mib, volume_uuids, nic_uuids"
            " FROM simulator.guests WHERE power <> 'Absent' AND uuid > %s ORDER BY uuid LIMIT %s"
        ):
            nics = None if row[7] is None else frozenset(row[7])
            yield Guest(row[0], row[1], PowerState(row[2]), row[3], row[4], row[5], frozenset(row[6]), nics)

    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        """See HypervisorDriver."""
        query = "SELECT uuid, pool_uuid, size_bytes FROM simulator.volumes WHERE uuid > %s ORDER BY uuid LIMIT %s"
        for row in self._link.pages(query):
            yield row[0], row[1], row[2]

    def sync_hosts(self, hosts: Sequence[SimulatedHost]) -> None:
        """Make hosts known; see ``simulator_inventory.sync_hosts``.

        Raises:
            DriverError: the database does not answer.
        """
        self._link.ask("sync", ANY_HOST, at_leisure(lambda connection: sync_hosts(connection, hosts)))

    def adopt_guests(self, guests: Sequence[AdoptedGuest]) -> int:
        """Take guests as running; see ``simulator_inventory.adopt_guests``.

        Raises:
            DriverError: see there, or the database does not answer.
        """
        return self._link.ask("adopt", ANY_HOST, at_leisure(lambda connection: adopt_guests(connection, guests)))

    def close(self) -> None:
        """See HypervisorDriver."""
        self._link.close()

    def _call(self, query: LiteralString, parameters: list[object], call: "_Call") -> str | None:
        """Make the call; what it answers, if anything."""
        draw = self._random.random()
        everything = [*parameters, *([] if call.fence is None else [call.fence]), call.timeout_s * 1000, draw]
        host = ANY_HOST if call.host is None else call.host.name
        verdict: str
        reason: str | None
        verdict, step, reason, transient, wait_ms, host_found = self._link.ask(
            call.step,
            host,
            lambda connection: connection.execute(query, everything).fetchall()[0],
            patience_s=call.timeout_s,
        )
        if call.host is None and host_found is not None:
            host = host_found
        wait_s = min(wait_ms / 1000, call.timeout_s)
        if wait_s > 0:
            self._sleep(wait_s)
        if verdict == "silent":
            reason = f"no answer within {call.timeout_s:g} s"
            raise DriverError(step, host, reason, transient=True, unanswered=True)
        if verdict == "stale":
            raise StaleFence(step, host, reason, transient=False)
        if verdict == "failed":
            raise DriverError(step, host, reason, transient=transient)
        return reason


@dataclass(frozen=True, slots=True)
class _Call:
    """What every call has: the step to name when the reason is elsewhere, host, fence (of guests), patience."""

    step: str
    host: HostAddress | None
    fence: int | None
    timeout_s: float


def _devices(guest: GuestSpec) -> list[str]:
    """Its volumes, their pools and sizes, and its nics."""
    return [
        _array(volume.uuid for volume in guest.volumes),
        _array(volume.pool_uuid for volume in guest.volumes),
        _array(volume.size_bytes for volume in guest.volumes),
        _array(nic.uuid for nic in guest.nics),
    ]


def _array(values: Iterable[UUID | int]) -> str:
    """An array as PostgreSQL reads it; psycopg looks for the type of each list anew."""
    return f"{{{','.join(map(str, values))}}}"
