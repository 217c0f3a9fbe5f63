"""An inventory: one zone and everything a deployment in it may name, as plain values.

This is what an inventory file says (``services.inventory.inventory_file`` reads it), what the loader writes
(``store.inventory_*``) and what an export gives back. Two inventories are equal when they say the
same; where in a file they say it (``where``) does not count.

Units: MHz, MiB of memory, bytes of storage, GiB where a name ends in ``gib``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from bulkdeploy.domain.inventory_catalog import DiskOffering, Network, ServiceOffering, Template
from bulkdeploy.domain.inventory_owners import NOWHERE, Account, AccountName, Domain, Where
from bulkdeploy.domain.topology import (
    AllocationState,
    HostResourceState,
    HostState,
    HypervisorType,
    NetworkType,
    PoolScope,
)

VMS_LIMIT: Mapping[HypervisorType, int] = {
    HypervisorType.KVM: 150,
    HypervisorType.VMWARE: 128,
    HypervisorType.XENSERVER: 500,
    HypervisorType.HYPERV: 1024,
}
"""VMs that a host holds at most where the file gives no ``vms_limit``, by hypervisor."""

OTHER_VMS_LIMIT = 50
"""The same for hypervisors that have no entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedication:
    """Who alone may use a zone, pod, cluster or host: a domain, or one account of it."""

    domain: str
    account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePool:
    """A primary storage pool; its scope says what it stands in. Capacity before over-provisioning."""

    name: str
    scope: PoolScope
    capacity_bytes: int
    pool_type: str = "NetworkFilesystem"
    hypervisor: HypervisorType | None = None
    state: str = "Up"
    ip_address: str | None = None
    path: str | None = None
    tags: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as it physically is, before over-commit; ``vms_limit`` None: its hypervisor's."""

    name: str
    ip_address: str
    cpu_sockets: int = 1
    cpu_cores: int
    cpu_mhz: int
    memory_mib: int
    hypervisor_version: str | None = None
    tags: tuple[str, ...] = ()
    state: HostState = HostState.UP
    resource_state: HostResourceState = HostResourceState.ENABLED
    vms_limit: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    dedicated_to: Dedication | None = None
    storage_pools: tuple[StoragePool, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """VMs that run already: ``count`` alike ones on the named hosts (none named: all usable ones).

    They are called ``<name>-1``, ``<name>-2``, ...; the name is what tells a load that was written
    before from a new one, so it is unique in its zone.
    """

    name: str
    account: AccountName
    offering: str
    template: str
    count: int
    hosts: tuple[str, ...] = ()
    network: str | None = None
    cpu_number: int | None = None
    cpu_mhz: int | None = None
    memory_mib: int | None = None
    security_groups: tuple[str, ...] = ()
    affinity_groups: tuple[str, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster of one hypervisor type."""

    name: str
    hypervisor: HypervisorType
    allocation_state: AllocationState = AllocationState.ENABLED
    cpu_overcommit: Decimal = Decimal(1)
    memory_overcommit: Decimal = Decimal(1)
    dedicated_to: Dedication | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[Host, ...] = ()
    storage_pools: tuple[StoragePool, ...] = ()
    loads: tuple[Load, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod; the addresses are its management network's."""

    name: str
    gateway: str | None = None
    netmask: str | None = None
    start_ip: str | None = None
    end_ip: str | None = None
    allocation_state: AllocationState = AllocationState.ENABLED
    dedicated_to: Dedication | None = None
    clusters: tuple[Cluster, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalNetwork:
    """A physical network of the zone."""

    name: str
    isolation_methods: str = "VLAN"
    vlan_range: str | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """The zone itself; ``domain``: the only domain (with its children) that may use it."""

    name: str
    description: str | None = None
    network_type: NetworkType = NetworkType.ADVANCED
    security_groups_enabled: bool = False
    local_storage_enabled: bool = False
    allocation_state: AllocationState = AllocationState.ENABLED
    dns1: str | None = None
    dns2: str | None = None
    internal_dns1: str | None = None
    internal_dns2: str | None = None
    guest_cidr: str | None = None
    network_domain: str | None = None
    domain: str | None = None
    sort_key: int = 0
    dedicated_to: Dedication | None = None
    physical_networks: tuple[PhysicalNetwork, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """One zone, what is in it, and the owners, offerings, templates and settings that go with it."""

    zone: Zone
    configuration: Mapping[str, str] = field(default_factory=dict)
    domains: tuple[Domain, ...] = ()
    accounts: tuple[Account, ...] = ()
    service_offerings: tuple[ServiceOffering, ...] = ()
    disk_offerings: tuple[DiskOffering, ...] = ()
    templates: tuple[Template, ...] = ()
    networks: tuple[Network, ...] = ()
    pods: tuple[Pod, ...] = ()
    storage_pools: tuple[StoragePool, ...] = ()
