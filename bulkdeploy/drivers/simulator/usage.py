"""The usage of simulated hosts and guests: figures that grow with the time for which guests run."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from bulkdeploy.domain.units import KIB
from bulkdeploy.domain.virtual_machines.usage import GuestUsage, HostUsage
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.link import SimulatorLink

_HOSTS = (
    "SELECT uuid, memory_mib_used, (extract(epoch FROM clock_timestamp()) * 1000)::bigint,"
    " is_off OR is_cut_off"
    " FROM simulator.hosts WHERE uuid = ANY(%s)"
)
_GUESTS = (
    "SELECT host_uuid, uuid, cpu_number, memory_mib,"
    " extract(epoch FROM clock_timestamp() - changed)::double precision"
    " FROM simulator.guests WHERE power = 'Running' AND host_uuid = ANY(%s)"
)
SYSTEM_MIB = 512
"""The memory that a simulated host needs for itself, in MiB."""


def usage_of(link: SimulatorLink, hosts: Sequence[HostAddress], timeout_s: float) -> list[HostUsage | DriverError]:
    """Return the usage of each host in order, or an error for a host that is off, cut off or unknown.

    Raises:
        DriverError: the simulator's database does not answer.
    """
    wanted = [host.uuid for host in hosts]
    rows = link.request(
        "usage", ANY_HOST, lambda to: to.execute(_HOSTS, (wanted,)).fetchall(), patience_s=timeout_s
    )
    running = link.request(
        "usage", ANY_HOST, lambda to: to.execute(_GUESTS, (wanted,)).fetchall(), patience_s=timeout_s
    )
    guests: dict[UUID, list[GuestUsage]] = defaultdict(list)
    for host, uuid, cores, memory_mib, seconds in running:
        guests[host].append(_guest_usage(uuid, cores, memory_mib, max(seconds, 0.0)))
    there = {row[0]: row for row in rows}
    answers: list[HostUsage | DriverError] = []
    for host in hosts:
        row = there.get(host.uuid)
        if row is None or row[3]:
            answers.append(DriverError("usage", host.name, "no route to the host", transient=True))
        else:
            answers.append(_host_usage(host.uuid, row[1], row[2], guests[host.uuid]))
    return answers


def _guest_usage(uuid: UUID, cores: int, memory_mib: int, seconds: float) -> GuestUsage:
    """Return the usage of a guest that has run for ``seconds``.

    Each guest uses 2 to 26 % of its cores, depending on its uuid, and reads and writes in proportion.
    """
    load = 2 + uuid.bytes[15] % 25
    total = int(seconds * load)
    return GuestUsage(
        uuid,
        cpu_ns=int(seconds * cores * load * 1e7),
        memory_kib=memory_mib * KIB,
        unused_kib=memory_mib * KIB * (100 - load) // 100,
        received_bytes=total * 4096,
        sent_bytes=total * 1024,
        read_bytes=total * 8192,
        written_bytes=total * 2048,
        reads=total * 2,
        writes=total,
    )


def _host_usage(uuid: UUID, memory_mib: int, age_ms: int, guests: Sequence[GuestUsage]) -> HostUsage:
    """Return the usage of a host. Each host uses 5 to 44 % of its cores, depending on its uuid."""
    total_ns = age_ms * 10**6
    busy_ns = total_ns * (5 + uuid.bytes[15] % 40) // 100
    return HostUsage(uuid, busy_ns, total_ns, (memory_mib + SYSTEM_MIB) * KIB, guests)
