"""Making up zones of any size, for benchmarks: described in memory, written like any inventory.

The same numbers always give the same zones. VMs are spread unevenly over the clusters, as they are in
the world, so that dispersing has something to level.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import pairwise

from sqlalchemy import Engine

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.inventory import Cluster, Host, Inventory, Load, Pod, StoragePool, Zone
from bulkdeploy.domain.inventory_catalog import IpRange, Network, ServiceOffering, Template
from bulkdeploy.domain.inventory_owners import Account, AccountName, Domain, User
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.domain.topology import HypervisorType, PoolScope, TemplateKind
from bulkdeploy.domain.units import GIB
from bulkdeploy.services.inventory import LoadReport, store_inventory
from bulkdeploy.services.system import Cipher
from bulkdeploy.store.inventory_staging import refresh_statistics

MOST_HOSTS = 1_000_000
MOST_VMS = 10_000_000
TENANTS = 10
LOAD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,30}", re.ASCII)
DOMAIN = "ROOT/generated"
OFFERING = "Generated small"
TEMPLATE = "Generated (KVM)"
HOST_SIZES = ((16, 2400, 64), (32, 2600, 128), (64, 2800, 256))
"""Cores, MHz of one, GiB of memory; clusters take them in turn."""

UNLIMITED_IN_ALL = dict.fromkeys(
    (
        ResourceType.USER_VM,
        ResourceType.VOLUME,
        ResourceType.CPU,
        ResourceType.MEMORY,
        ResourceType.PRIMARY_STORAGE,
    ),
    UNLIMITED,
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much there shall be, over all zones."""

    zones: int
    pods: int
    clusters: int
    hosts: int
    vms: int

    def check(self, prefix: str) -> None:
        """Every zone needs a pod, every pod a cluster, every cluster a host.

        Raises:
            InvalidParameter: names the first number that is too small or too large.
        """
        if LOAD_NAME.fullmatch(f"{prefix}-1") is None:
            raise InvalidParameter("prefix", prefix, "must be a short host name: VMs are named after it")
        chain = (("zones", self.zones, 1), ("pods", self.pods, self.zones), ("clusters", self.clusters, self.pods))
        for name, number, least in (*chain, ("hosts", self.hosts, self.clusters), ("vms", self.vms, 0)):
            if number < least:
                raise InvalidParameter(name, number, f"must be at least {least}")
        for name, number, most in (("hosts", self.hosts, MOST_HOSTS), ("vms", self.vms, MOST_VMS)):
            if number > most:
                raise InvalidParameter(name, number, f"must be at most {most}")


def generate_inventory(
    engine: Engine, cipher: Cipher, size: Size, *, prefix: str = "generated"
) -> list[LoadReport]:
    """Write zones of this size, one transaction each, and let the database look at them once.

    Raises:
        InvalidParameter: the numbers do not go together.
        InvalidInventory: the VMs do not fit on the hosts.
    """
    reports = [
        store_inventory(engine, cipher, inventory.zone.name, inventory)
        for inventory in generated_inventories(size, prefix=prefix)
    ]
    with engine.begin() as connection:
        refresh_statistics(connection)
    return reports


def generated_inventories(size: Size, *, prefix: str = "generated") -> Iterator[Inventory]:
    """One inventory per zone; together they have exactly the numbers asked for.

    Raises:
        InvalidParameter: the numbers do not go together.
    """
    size.check(prefix)
    pods, clusters = _shares(size.pods, size.zones), _shares(size.clusters, size.zones)
    hosts, vms = _shares(size.hosts, size.zones), _shares(size.vms, size.zones)
    for zone in range(size.zones):
        yield _zone(f"{prefix}-{zone + 1}", Size(1, pods[zone], clusters[zone], hosts[zone], vms[zone]))


def _zone(name: str, size: Size) -> Inventory:
    tenants = [AccountName(f"tenant-{number}", DOMAIN) for number in range(1, TENANTS + 1)]
    return Inventory(
        zone=Zone(name=name, description="Made up by bulkdeploy inventory generate"),
        domains=(Domain(path=DOMAIN, limits=UNLIMITED_IN_ALL),),
        accounts=tuple(
            Account(
                name=tenant.name,
                domain=DOMAIN,
                role="User",
                limits=UNLIMITED_IN_ALL,
                users=(User(username=tenant.name),),
            )
            for tenant in tenants
        ),
        service_offerings=(
            ServiceOffering(
                name=OFFERING, display_text="1 core and 512 MiB", cpu_number=1, cpu_mhz=500, memory_mib=512
            ),
        ),
        templates=(_template(),),
        networks=(_network(),),
        pods=tuple(_pods(name, size, tenants)),
    )


def _template() -> Template:
    return Template(
        kind=TemplateKind.TEMPLATE,
        name=TEMPLATE,
        display_text="Made up",
        template_type="BUILTIN",
        format="QCOW2",
        hypervisor=HypervisorType.KVM,
        size_bytes=GIB,
        physical_size_bytes=GIB,
        is_featured=True,
    )


def _network() -> Network:
    """16 million addresses: enough for any benchmark."""
    addresses = IpRange(start_ip="10.0.0.10", end_ip="10.255.255.254", gateway="10.0.0.1", netmask="255.0.0.0")
    return Network(
        name="guests",
        display_text="guests",
        offering="DefaultSharedNetworkOffering",
        cidr="10.0.0.0/8",
        gateway="10.0.0.1",
        is_default=True,
        ranges=(addresses,),
    )


def _pods(zone: str, size: Size, tenants: Sequence[AccountName]) -> Iterator[Pod]:
    """Hosts are numbered through the zone, as their addresses in the management network are."""
    hosts_of = iter(_shares(size.hosts, size.clusters))
    vms_of = iter(_uneven_shares(size.vms, size.clusters, seed=zone))
    cluster = first_host = 0
    for pod, clusters in enumerate(_shares(size.clusters, size.pods), start=1):
        described: list[Cluster] = []
        for _ in range(clusters):
            count = next(hosts_of)
            described.append(_cluster(zone, cluster, first_host, count, next(vms_of), tenants))
            cluster, first_host = cluster + 1, first_host + count
        yield Pod(name=f"{zone}-pod-{pod}", clusters=tuple(described))


def _cluster(
    zone: str, number: int, first_host: int, hosts: int, vms: int, tenants: Sequence[AccountName]
) -> Cluster:
    cores, mhz, memory_gib = HOST_SIZES[number % len(HOST_SIZES)]
    name = f"{zone}-cluster-{number + 1}"
    loads = (
        Load(
            name=f"{zone}-vm-{number + 1}",
            account=tenants[number % len(tenants)],
            offering=OFFERING,
            template=TEMPLATE,
            count=vms,
        ),
    )
    return Cluster(
        name=name,
        hypervisor=HypervisorType.KVM,
        hosts=tuple(
            Host(
                name=f"{zone}-host-{host + 1}",
                ip_address=str(IPv4Address("172.16.0.1") + host),
                cpu_cores=cores,
                cpu_mhz=mhz,
                memory_mib=memory_gib * 1024,
            )
            for host in range(first_host, first_host + hosts)
        ),
        storage_pools=(
            StoragePool(
                name=f"{name}-primary", scope=PoolScope.CLUSTER, capacity_bytes=10 * 1024 * GIB * max(1, hosts)
            ),
        ),
        loads=loads if vms else (),
    )


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
