"""Making up zones of any size with VMs that run already: filled into the tables directly, as no call would.

The same numbers always give the same zones. VMs are spread unevenly over the clusters, as they are in the world,
so that dispersing has something to level; within a cluster the hosts take them in turn.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise

from psycopg import Connection
from sqlalchemy import Engine, text

from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.drivers.simulator.database import connect, ensure_database
from bulkdeploy.drivers.simulator.inventory import SimulatedHost, sync_hosts

TENANTS = 10
OFFERING = "Generated small"
TEMPLATE = "Generated (KVM)"
HOST_SIZES = ((16, 2400, 64), (32, 2600, 128), (64, 2800, 256))
"""Cores, MHz of one, GiB of memory; clusters take them in turn."""

UNLIMITED = (
    ResourceType.USER_VM,
    ResourceType.VOLUME,
    ResourceType.CPU,
    ResourceType.MEMORY,
    ResourceType.PRIMARY_STORAGE,
)
HOSTS = (
    "SELECT h.uuid, h.name, h.cpu_cores, h.cpu_mhz, h.memory_mib, c.cpu_mhz_limit, c.memory_mib_limit, c.vms_limit"
    " FROM hosts h JOIN host_capacity c ON c.host_id = h.id"
)
GUESTS = (
    "SELECT v.uuid, 0, 'Running', h.uuid, v.instance_name, v.cpu_number, v.cpu_mhz, v.memory_mib, array_agg(o.uuid)"
    " FROM virtual_machines v JOIN hosts h ON h.id = v.host_id JOIN volumes o ON o.vm_id = v.id"
    " WHERE v.state = 'Running' GROUP BY v.id, h.id"
)
VOLUMES = (
    "SELECT o.uuid, p.uuid, o.size_bytes, v.uuid"
    " FROM volumes o JOIN storage_pools p ON p.id = o.pool_id JOIN virtual_machines v ON v.id = o.vm_id"
    " WHERE v.state = 'Running'"
)
COPY_GUESTS = (
    "COPY simulator.guests (uuid, fence, power, host_uuid, name, cpu_number, cpu_mhz, memory_mib, volume_uuids)"
    " FROM STDIN"
)
COPY_VOLUMES = "COPY simulator.volumes (uuid, pool_uuid, size_bytes, guest_uuid) FROM STDIN"
COUNT_GUESTS = (
    "UPDATE simulator.hosts h SET cpu_mhz_used = g.cpu_mhz, memory_mib_used = g.memory_mib, guests_used = g.guests"
    " FROM (SELECT host_uuid, sum(cpu_number::bigint * cpu_mhz) AS cpu_mhz, sum(memory_mib) AS memory_mib,"
    "  count(*) AS guests FROM simulator.guests GROUP BY host_uuid) g WHERE h.uuid = g.host_uuid"
)
STATEMENT = re.compile(r"^-- (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Size:
    """How much there shall be, over all zones: at least a pod per zone, a cluster per pod, a host per cluster."""

    zones: int
    pods: int
    clusters: int
    hosts: int
    vms: int


def generate_zones(engine: Engine, size: Size, *, prefix: str = "generated") -> None:
    """Write zones of this size, one transaction each, and let the database look at them once."""
    statements = _statements()
    totals = (size.pods, size.clusters, size.hosts, size.vms)
    shares = zip(*(_shares(total, size.zones) for total in totals), strict=True)
    for number, (pods, clusters, hosts, vms) in enumerate(shares, start=1):
        values = _values(f"{prefix}-{number}", pods, clusters, hosts, vms)
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement), values)
    with engine.begin() as connection:
        connection.execute(text("ANALYZE"))


def register_with_hypervisors(engine: Engine, simulator_url: str) -> None:
    """Let the simulated hypervisors have the hosts of the database, and its VMs as running guests; once."""
    with engine.connect() as connection:
        hosts, guests, volumes = (connection.execute(text(query)).all() for query in (HOSTS, GUESTS, VOLUMES))
    ensure_database(simulator_url)
    with connect(simulator_url) as simulator:
        sync_hosts(simulator, [SimulatedHost(*host) for host in hosts])
        with simulator.transaction():
            _copy(simulator, COPY_GUESTS, guests)
            _copy(simulator, COPY_VOLUMES, volumes)
            simulator.execute(COUNT_GUESTS)


def _copy(simulator: Connection, statement: str, rows: Iterable[Sequence[object]]) -> None:
    with simulator.cursor().copy(statement.encode()) as copy:
        for row in rows:
            copy.write_row(row)


def _statements() -> list[str]:
    """The statements of generation.sql; a line of comment stands before each."""
    script = resources.files("benchmarks").joinpath("generation.sql").read_text()
    return [part.strip().removesuffix(";") for part in STATEMENT.split(script)[2::2]]


def _values(zone: str, pods: int, clusters: int, hosts: int, vms: int) -> dict[str, object]:
    """What the statements ask for; lists have an entry per cluster."""
    pod_of = [pod for pod, share in enumerate(_shares(clusters, pods), start=1) for _ in range(share)]
    sizes = [HOST_SIZES[number % len(HOST_SIZES)] for number in range(clusters)]
    return {
        "zone": zone,
        "offering": OFFERING,
        "template": TEMPLATE,
        "tenants": TENANTS,
        "types": [kind.value for kind in UNLIMITED],
        "pods": pods,
        "pod_of": pod_of,
        "hosts": _shares(hosts, clusters),
        "vms": _uneven_shares(vms, clusters, seed=zone),
        "cores": [cores for cores, _, _ in sizes],
        "mhz": [mhz for _, mhz, _ in sizes],
        "memory": [memory_gib * 1024 for _, _, memory_gib in sizes],
    }


def _shares(total: int, parts: int) -> list[int]:
    """``total`` in ``parts`` shares that differ by one at most."""
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]


def _uneven_shares(total: int, parts: int, *, seed: str) -> list[int]:
    """``total`` in ``parts`` shares between nothing and twice the average."""
    chance = random.Random(seed)  # noqa: S311 - repeatable dice, not secrets
    weights = [chance.random() for _ in range(parts)]
    edges = [0.0]
    for weight in weights:
        edges.append(edges[-1] + weight)
    marks = [round(total * edge / edges[-1]) for edge in edges]
    return [upper - lower for lower, upper in pairwise(marks)]
