"""Reading the hosts of a cluster: groups of alike hosts, one line for many."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from itertools import chain

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.inventory import Host, StoragePool
from bulkdeploy.domain.inventory_owners import Where
from bulkdeploy.domain.topology import HostResourceState, HostState, HypervisorType, PoolScope
from bulkdeploy.domain.units import MIB
from bulkdeploy.services.inventory.inventory_catalog import CORES, MEMORY, SPEED, TAGS, Known
from bulkdeploy.services.inventory.inventory_document import Items, Keys, Node, Value
from bulkdeploy.services.inventory.inventory_networks import dedication, settings
from bulkdeploy.services.inventory.inventory_patterns import MOST_EXPANDED, expand
from bulkdeploy.services.inventory.inventory_values import (
    NO_IP,
    choice,
    host_name,
    ip_address,
    list_of,
    matching,
    name,
    named,
    one_of,
    size,
    text,
    text_map,
    whole,
)

MOST_PATTERNS = 100
MOST_HOSTS = 200_000
CAPACITY = size(MIB, 2**62, 1)
SOCKETS = whole(1, 256)
VMS_LIMIT = whole(0, 10_000)
POOL_STATES = ("Up", "Disabled", "Maintenance", "PrepareForMaintenance", "ErrorInMaintenance")
POOL_TYPES = (
    "NetworkFilesystem",
    "SharedMountPoint",
    "RBD",
    "CLVM",
    "PreSetup",
    "VMFS",
    "DatastoreCluster",
    "FiberChannel",
    "PowerFlex",
    "Filesystem",
    "LVM",
    "EXT",
)
LOCAL_POOL_TYPES = {HypervisorType.XENSERVER: "EXT", HypervisorType.VMWARE: "VMFS"}
"""Type of a host's own pool by hypervisor; the others keep files."""


@dataclass(frozen=True, slots=True)
class HostSize:
    """Hardware that many hosts share, under a name."""

    name: str
    where: Where
    cpu_sockets: int
    cpu_cores: int
    cpu_mhz: int
    memory_mib: int
    vms_limit: int | None


def read_host_size(keys: Keys) -> HostSize:
    """One entry of ``host_sizes``."""
    return HostSize(
        name=keys.need("name", name()),
        where=keys.where,
        cpu_sockets=keys.get("cpu_sockets", SOCKETS, 1),
        cpu_cores=keys.need("cpu_cores", CORES),
        cpu_mhz=keys.need("cpu_mhz", SPEED),
        memory_mib=keys.need("memory", MEMORY),
        vms_limit=keys.get("vms_limit", VMS_LIMIT, None),
    )


class HostReader:
    """Reads groups of hosts, and keeps count of them over the whole file."""

    def __init__(self, known: Known, sizes: Mapping[str, HostSize]) -> None:
        self._known, self._sizes, self._count = known, sizes, 0

    def read_group(self, keys: Keys, hypervisor: HypervisorType) -> tuple[Host, ...]:
        """The hosts of one group: alike but for names, which count up, and addresses, which do so too.

        Raises:
            InvalidInventory: the file describes more hosts than MOST_HOSTS; the rest is not looked at.
        """
        names = keys.need("names", host_names())
        self._count += len(names)
        if self._count > MOST_HOSTS:
            keys.refuse("names", f"the file describes more than {MOST_HOSTS} hosts")
            self._known.problems.refuse_if_any()
        hardware = self._read_hardware(keys)
        pools = keys.each("local_storage", "a local storage pool", lambda item: _read_local(item, hypervisor))
        tags = keys.get("tags", TAGS, ())
        state = keys.get("state", choice(HostState), HostState.UP)
        resource_state = keys.get("resource_state", choice(HostResourceState), HostResourceState.ENABLED)
        version = keys.get("hypervisor_version", name(), None)
        details = keys.get("details", text_map(), {})
        dedicated_to = keys.get("dedicated_to", dedication(self._known), None)
        return tuple(
            Host(
                name=called,
                ip_address=ip,
                cpu_sockets=hardware.cpu_sockets,
                cpu_cores=hardware.cpu_cores,
                cpu_mhz=hardware.cpu_mhz,
                memory_mib=hardware.memory_mib,
                vms_limit=hardware.vms_limit,
                hypervisor_version=version,
                tags=tags,
                state=state,
                resource_state=resource_state,
                details=details,
                dedicated_to=dedicated_to,
                storage_pools=tuple(_of_host(pool, called) for pool in pools),
                where=keys.where,
            )
            for called, ip in zip(names, _addresses(keys, len(names)), strict=True)
        )

    def _read_hardware(self, keys: Keys) -> HostSize:
        """The group's own keys, before those of the size it names."""
        base = keys.get("size", named("a host size", self._sizes, None), None)
        return HostSize(
            name="",
            where=keys.where,
            cpu_sockets=keys.get("cpu_sockets", SOCKETS, base.cpu_sockets if base else 1),
            cpu_cores=keys.get("cpu_cores", CORES, base.cpu_cores) if base else keys.need("cpu_cores", CORES),
            cpu_mhz=keys.get("cpu_mhz", SPEED, base.cpu_mhz) if base else keys.need("cpu_mhz", SPEED),
            memory_mib=keys.get("memory", MEMORY, base.memory_mib) if base else keys.need("memory", MEMORY),
            vms_limit=keys.get("vms_limit", VMS_LIMIT, base.vms_limit if base else None),
        )


def _addresses(keys: Keys, count: int) -> list[str]:
    """``count`` addresses from ``first_ip`` on."""
    first = keys.need("first_ip", ip_address())
    if first == NO_IP:
        return [NO_IP] * count
    try:
        return [str(IPv4Address(first) + position) for position in range(count)]
    except AddressValueError:
        keys.refuse("first_ip", f"there are no {count} addresses from here on")
        return [NO_IP] * count


def _of_host(pool: StoragePool, host: str) -> StoragePool:
    """The group's local pool as that of one host: its name is put before the pool's."""
    return StoragePool(
        name=f"{host}-{pool.name}",
        scope=PoolScope.HOST,
        capacity_bytes=pool.capacity_bytes,
        pool_type=pool.pool_type,
        state=pool.state,
        path=pool.path,
        tags=pool.tags,
        configuration=pool.configuration,
        where=pool.where,
    )


def _read_local(keys: Keys, hypervisor: HypervisorType) -> StoragePool:
    return StoragePool(
        name=keys.get("name", host_name(), "local"),
        scope=PoolScope.HOST,
        capacity_bytes=keys.need("capacity", CAPACITY),
        pool_type=keys.get("type", one_of(*POOL_TYPES), LOCAL_POOL_TYPES.get(hypervisor, "Filesystem")),
        state=keys.get("state", one_of(*POOL_STATES), "Up"),
        path=keys.get("path", text(255), None),
        tags=keys.get("tags", TAGS, ()),
        configuration=keys.get("configuration", settings(Scope.STORAGE_POOL), {}),
        where=keys.where,
    )


def read_pool(keys: Keys, scope: PoolScope) -> StoragePool:
    """A pool of the zone, or of the cluster it stands in."""
    pool = StoragePool(
        name=keys.need("name", name()),
        scope=scope,
        capacity_bytes=keys.need("capacity", CAPACITY),
        pool_type=keys.get("type", one_of(*POOL_TYPES), "NetworkFilesystem"),
        hypervisor=keys.get("hypervisor", choice(HypervisorType), None),
        state=keys.get("state", one_of(*POOL_STATES), "Up"),
        ip_address=keys.get("ip", ip_address(), None),
        path=keys.get("path", text(255), None),
        tags=keys.get("tags", TAGS, ()),
        configuration=keys.get("configuration", settings(Scope.STORAGE_POOL), {}),
        where=keys.where,
    )
    if scope is PoolScope.CLUSTER and pool.hypervisor is not None:
        keys.refuse("hypervisor", "is for pools of the zone; a cluster has one hypervisor")
    return pool


def host_names() -> Value[tuple[str, ...]]:
    """One or many host names: ``kvm-a-{01..10}`` stands for ten, with the zeros as written; or a list of such."""
    none: tuple[str, ...] = ()
    rule = f"must be a host name, or a pattern of at most {MOST_EXPANDED} such as 'kvm-a-{{01..10}}'"
    one = matching(rule, expand, none)
    several = list_of(one, most=MOST_PATTERNS)

    def read(node: Node) -> tuple[str, ...]:
        if not isinstance(node, Items):
            return one.read(node)
        return tuple(chain.from_iterable(several.read(node)))

    return Value(read, none)
