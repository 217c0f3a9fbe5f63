"""What an inventory offers: service and disk offerings, templates and ISOs, networks.

A part of ``domain.inventory``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from bulkdeploy.domain.inventory_owners import NOWHERE, ROOT, ROOT_ADMIN, AccountName, Where
from bulkdeploy.domain.topology import HypervisorType, StorageType, TemplateKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOffering:
    """A service offering; ``cpu_number`` and ``memory_mib`` None: the caller chooses within the bounds.

    ``domains`` empty: for everybody. ``zone_only``: not offered in other zones.
    """

    name: str
    display_text: str
    cpu_number: int | None = None
    cpu_mhz: int | None = None
    memory_mib: int | None = None
    min_cpu_number: int | None = None
    max_cpu_number: int | None = None
    min_memory_mib: int | None = None
    max_memory_mib: int | None = None
    root_disk_gib: int | None = None
    storage_type: StorageType = StorageType.SHARED
    storage_tags: tuple[str, ...] = ()
    host_tags: tuple[str, ...] = ()
    planner: str | None = None
    offer_ha: bool = False
    limit_cpu_use: bool = False
    dynamic_scaling: bool = True
    network_rate: int | None = None
    domains: tuple[str, ...] = ()
    zone_only: bool = False
    details: Mapping[str, str] = field(default_factory=dict)
    state: str = "Active"
    sort_key: int = 0
    where: Where = field(default=NOWHERE, compare=False, repr=False)

    @property
    def is_custom(self) -> bool:
        """True when the caller gives cores, speed or memory."""
        return self.cpu_number is None or self.cpu_mhz is None or self.memory_mib is None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOffering:
    """A disk offering; ``disk_gib`` 0 and ``customized``: the caller gives the size."""

    name: str
    display_text: str
    disk_gib: int = 0
    customized: bool = False
    storage_type: StorageType = StorageType.SHARED
    storage_tags: tuple[str, ...] = ()
    provisioning_type: str = "thin"
    display_offering: bool = True
    domains: tuple[str, ...] = ()
    zone_only: bool = False
    details: Mapping[str, str] = field(default_factory=dict)
    state: str = "Active"
    sort_key: int = 0
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A template or an ISO; ``ready`` and ``status`` are about the inventory's zone."""

    kind: TemplateKind
    name: str
    display_text: str
    owner: AccountName = ROOT_ADMIN
    template_type: str = "USER"
    format: str
    hypervisor: HypervisorType | None = None
    os_type: str | None = None
    size_bytes: int
    physical_size_bytes: int
    is_public: bool = True
    is_featured: bool = False
    is_extractable: bool = False
    bootable: bool = True
    password_enabled: bool = False
    sshkey_enabled: bool = False
    requires_hvm: bool = True
    dynamically_scalable: bool = True
    template_tag: str | None = None
    url: str | None = None
    checksum: str | None = None
    arch: str = "x86_64"
    details: Mapping[str, str] = field(default_factory=dict)
    sort_key: int = 0
    shared_with: tuple[AccountName, ...] = ()
    ready: bool = True
    status: str = "Download Complete"
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IpRange:
    """Addresses from ``start_ip`` to ``end_ip``, both included; with a pod: for its VMs only."""

    start_ip: str
    end_ip: str
    gateway: str
    netmask: str
    vlan: str | None = None
    pod: str | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A guest network; ``offering`` is the name of a network offering that the installation has."""

    name: str
    display_text: str
    offering: str
    owner: AccountName = ROOT_ADMIN
    acl_type: str = "Domain"
    domain: str = ROOT
    subdomain_access: bool = True
    physical_network: str | None = None
    cidr: str | None = None
    gateway: str | None = None
    vlan: str | None = None
    network_domain: str | None = None
    is_default: bool = False
    ranges: tuple[IpRange, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)

    @property
    def netmask(self) -> str | None:
        """The netmask of its CIDR."""
        return None if self.cidr is None else str(IPv4Network(self.cidr).netmask)
