"""Deploy calls: requests, the facts against which rules are checked, and results (one file: one vocabulary).

A ``DeployCall`` has a ``DeployRequest`` with resolved ids for each configuration. A ``DeploySpec`` is a request
that violates no rule, with the sizes and ids that are written. Units: MHz, MiB, bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.infrastructure.topology import AffinityType, NetworkType, StorageType, TemplateKind
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines.firmware import BootMode, BootType
from bulkdeploy.domain.virtual_machines.leases import Lease


@dataclass(frozen=True, slots=True)
class NamedDisk:
    """A data disk of a deploy call, which the call requests by ``parameter``.

    ``size_gib`` is set if the disk offering is a custom one. ``device_id`` is the number of the disk in the VM,
    from 1; None leaves the choice to the service.
    """

    parameter: str
    offering_id: int
    size_gib: int | None = None
    device_id: int | None = None


@dataclass(frozen=True, slots=True)
class NamedNic:
    """Requested addresses of the NIC in a network.

    If ``network_id`` is None, the NIC is the one in the default network.
    """

    network_id: int | None
    ip_address: str | None
    mac_address: str | None

    @property
    def ip_parameter(self) -> str:
        """The parameter that requests the IP address."""
        return "ipaddress" if self.network_id is None else "iptonetworklist"

    @property
    def mac_parameter(self) -> str:
        """The parameter that requests the MAC address."""
        return "macaddress" if self.network_id is None else "iptonetworklist"


@dataclass(frozen=True, slots=True)
class NamedVm:
    """The name of one VM of a request, and its entry in the list of the call. If the name is None, it is generated.

    ``uuid`` and ``job_uuid`` are the ids for the VM and for the job that deploys it; None generates new ids.
    """

    name: str | None = None
    display_name: str | None = None
    entry: int = 0
    uuid: str | None = None
    job_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """The variant of a template for the VMs of a call.

    If ``is_forced`` is set, the template need not declare the variant.
    """

    name: str | None = None
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """The request of a deploy call for ``count`` alike VMs, with the internal ids of all entities.

    ``root_disk_offering_id`` replaces the root disk of the service offering. ``data_disks`` are additional to the
    disk of ``disk_offering_id``. ``user_data_details`` has the values of variables in the user data. ``uuids`` maps
    a parameter and an internal id to the uuid that the caller used. ``flags`` are columns of the VMs that the call
    sets. ``explain_host_ids`` are hosts about which a dry run reports one by one. ``plan_index`` is the number of
    an earlier plan to apply; ``plan_fingerprint`` compares both calls. ``vms`` describes the VMs one by one in the
    order of their entries; it is empty if the call names none of them.
    """

    bulk: bool
    count: int
    zone_id: int
    service_offering_id: int
    template_id: int
    method: str
    minimum_count: int | None = None
    disk_offering_id: int | None = None
    disk_size_gib: int | None = None
    root_disk_gib: int | None = None
    root_disk_offering_id: int | None = None
    data_disks: tuple[NamedDisk, ...] = ()
    hypervisor: str | None = None
    pod_id: int | None = None
    cluster_id: int | None = None
    host_id: int | None = None
    account: str | None = None
    domain_id: int | None = None
    project_id: int | None = None
    network_ids: tuple[int, ...] = ()
    nics: tuple[NamedNic, ...] = ()
    security_group_ids: tuple[int, ...] | None = None
    security_group_names: tuple[str, ...] | None = None
    affinity_group_ids: tuple[int, ...] | None = None
    affinity_group_names: tuple[str, ...] | None = None
    keypairs: tuple[str, ...] = ()
    keypairs_parameter: str = "keypairs"
    user_data: str | None = None
    registered_user_data: EntityRef | None = None
    user_data_details: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)
    vms: tuple[NamedVm, ...] = ()
    name_prefix: str | None = None
    group: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    variant: Variant = Variant()
    boot_type: BootType | None = None
    boot_mode: BootMode | None = None
    planner: str | None = None
    lease_days: int | None = None
    lease_action: str | None = None
    start_vm: bool = True
    dry_run: bool = False
    explain_host_ids: tuple[int, ...] = ()
    request_token: str | None = None
    plan_index: int | None = None
    plan_fingerprint: bytes = b""
    fingerprint: bytes = b""
    uuids: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    @property
    def has_given_names(self) -> bool:
        """True if the call names its VMs or their prefix."""
        return self.name_prefix is not None or any(vm.name is not None for vm in self.vms)

    @property
    def networks_parameter(self) -> str:
        """The parameter that names the networks."""
        return "iptonetworklist" if any(nic.network_id for nic in self.nics) else "networkids"

    def nic_in(self, position: int, network_id: int) -> NamedNic:
        """Return the requested properties of the NIC in a network.

        ``position`` is the position of the NIC among the VM's NICs.
        """
        for nic in self.nics:
            if nic.network_id == network_id or (nic.network_id is None and position == 0):
                return nic
        return NamedNic(network_id, None, None)

    @classmethod
    def of_existing(cls, vm: Any, **more: Any) -> "DeployRequest":
        """Create the request that describes an existing VM, by its row, so that deploy rules can be checked."""
        return cls(
            bulk=False,
            count=1,
            zone_id=vm.zone_id,
            service_offering_id=vm.service_offering_id,
            template_id=vm.template_id,
            method="POST",
            **more,
        )

    def shown(self, parameter: str, row_id: int) -> str:
        """Return the uuid with which the caller named an entity, for use in a response."""
        return self.uuids.get(parameter, {}).get(row_id, str(row_id))


class ScaleInPolicy(StrEnum):
    """The order in which a managed deployment removes VMs."""

    BALANCED = "Balanced"
    """The VMs that stay are spread as evenly as possible over clusters and hosts; then the newest go first."""

    NEWEST_FIRST = "NewestFirst"
    OLDEST_FIRST = "OldestFirst"


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """The deploy call of a managed deployment, which is repeated to deploy more VMs later.

    Attributes:
        command: the name of its command.
        parameters: its parameters as texts, without those that apply only to the one call.
        scale_in_policy: the order in which VMs are removed.
        autoheal: whether broken VMs are healed.
        heal_after_s: the seconds after which a Stopped VM counts as broken, or None for the default.
        health_check: the health check that the guest of an available VM must answer, or None.
        health_timeout_s: the seconds without an answer after which a VM counts as failed, or None for the default.
    """

    command: str
    parameters: Mapping[str, str]
    scale_in_policy: ScaleInPolicy = ScaleInPolicy.BALANCED
    autoheal: bool = False
    heal_after_s: int | None = None
    health_check: HealthCheck | None = None
    health_timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class DeployCall:
    """A deploy call: one request per configuration, all for one owner in one zone.

    Common properties of all requests (zone, owner, token, ``start_vm`` and others) are repeated in each request.

    Attributes:
        caller: the user who makes the call.
        listed: whether the call has a list of VMs; errors then name the entries.
        partial: whether VMs that do not fit are left out while the others are deployed.
        request_id: the id of the API request to which the jobs belong.
        traceparent: the trace to which the jobs belong.
        recorded: the call itself, if its deployment becomes a managed one.
        grown_from: the id of the managed deployment that gets the VMs, or None.
    """

    caller: Caller
    requests: tuple[DeployRequest, ...]
    listed: bool = False
    partial: bool = False
    request_id: str | None = None
    traceparent: str | None = None
    recorded: RecordedCall | None = None
    grown_from: int | None = None

    @property
    def shared(self) -> DeployRequest:
        """The request from which the common properties of all requests can be read."""
        return self.requests[0]

    @property
    def count(self) -> int:
        """The number of requested VMs."""
        return sum(request.count for request in self.requests)

    @property
    def fewest(self) -> int:
        """The smallest number of VMs that the call accepts."""
        return self.shared.minimum_count or (1 if self.partial else self.count)

    @property
    def is_alone(self) -> bool:
        """True if the call must not share a transaction with other calls.

        Such a call may roll back to a savepoint, or wait for an earlier call with the same token.
        """
        shared = self.shared
        return (
            self.partial
            or shared.dry_run
            or shared.minimum_count is not None
            or shared.plan_index is not None
            or shared.request_token is not None
        )


@dataclass(frozen=True, slots=True)
class ZoneFacts:
    """The properties of a zone that deploy rules need."""

    id: int
    uuid: UUID
    name: str
    network_type: NetworkType
    security_groups_enabled: bool
    local_storage_enabled: bool
    enabled: bool


@dataclass(frozen=True, slots=True)
class OfferingFacts:
    """The properties of a service offering that deploy rules need. Sizes that the call chooses are None."""

    id: int
    name: str
    cpu_number: int | None
    cpu_mhz: int | None
    memory_mib: int | None
    min_cpu_number: int | None
    max_cpu_number: int | None
    min_memory_mib: int | None
    max_memory_mib: int | None
    root_disk_gib: int | None
    storage_type: StorageType
    storage_tags: frozenset[str]
    host_tags: frozenset[str]
    planner: str | None
    domain_ids: tuple[int, ...]
    zone_ids: tuple[int, ...]
    active: bool
    details: Mapping[str, str] = field(default_factory=dict, hash=False)
    lease_days: int | None = None
    lease_action: str | None = None

    @property
    def is_custom(self) -> bool:
        """True if the deploy call must choose CPU or memory."""
        return self.cpu_number is None or self.cpu_mhz is None or self.memory_mib is None


@dataclass(frozen=True, slots=True)
class DiskOfferingFacts:
    """The properties of a disk offering that deploy rules need. ``disk_gib`` is 0 if the call chooses the size."""

    id: int
    name: str
    disk_gib: int
    customized: bool
    storage_type: StorageType
    storage_tags: frozenset[str]
    domain_ids: tuple[int, ...]
    zone_ids: tuple[int, ...]
    active: bool
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


class UserDataPolicy(StrEnum):
    """The policies that decide whether a deploy call may replace the user data that is linked to a template."""

    ALLOW_OVERRIDE = "ALLOWOVERRIDE"
    DENY_OVERRIDE = "DENYOVERRIDE"


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """The properties of a template or ISO that deploy rules need, with its readiness in the requested zone.

    ``uefi`` is the value of the template's detail ``UEFI``. ``user_data`` is the linked registered user data as
    base64.
    """

    id: int
    uuid: UUID
    name: str
    kind: TemplateKind
    hypervisor: str | None
    size_bytes: int
    bootable: bool
    password_enabled: bool
    ready: bool
    tag: str | None
    owner_id: int
    is_public: bool
    shared_with_owner: bool
    variants: tuple[str, ...] = ()
    uefi: str | None = None
    user_data: str | None = None
    user_data_policy: UserDataPolicy | None = None


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """The properties of a guest network that deploy rules need."""

    id: int
    uuid: UUID
    name: str
    zone_id: int
    guest_type: str
    acl_type: str
    account_id: int
    domain_lineage: str
    subdomain_access: bool
    is_default: bool
    is_system: bool
    has_security_groups: bool
    has_user_data: bool
    network_domain: str | None
    shared_with: frozenset[int] = frozenset()
    """Accounts with a permission for the network of another account."""

    def is_usable_by(self, owner: Owner) -> bool:
        """Return whether VMs of the owner may use the network.

        A network of an account may be used by its account and by accounts with a permission. A network of a domain
        may be used in its domain and, if ``subdomain_access`` is set, in the domains below.
        """
        if self.acl_type == "Account":
            return self.account_id == owner.account_id or owner.account_id in self.shared_with
        if self.subdomain_access:
            return owner.lineage.startswith(self.domain_lineage)
        return owner.lineage == self.domain_lineage


@dataclass(frozen=True, slots=True)
class AffinityFacts:
    """The properties of an affinity group that placement needs.

    If ``account_id`` is None, the group belongs to the whole domain.
    """

    id: int
    name: str
    kind: AffinityType
    account_id: int | None
    domain_lineage: str


@dataclass(frozen=True, slots=True)
class DiskSpec:
    """The specification of a volume that each VM of a request has."""

    volume_type: str
    size_bytes: int
    storage_type: StorageType
    tags: frozenset[str]
    device_id: int = 0
    template_id: int | None = None
    disk_offering_id: int | None = None
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """A deploy call that passed all checks, with the properties of each of its VMs."""

    request: DeployRequest
    owner: Owner
    zone: ZoneFacts
    offering: OfferingFacts
    template: TemplateFacts
    hypervisor: str
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    disks: tuple[DiskSpec, ...]
    networks: tuple[NetworkFacts, ...]
    security_group_ids: tuple[int, ...]
    affinity_groups: tuple[AffinityFacts, ...]
    user_data: str | None
    uefi: BootMode | None = None
    lease: Lease | None = None

    @property
    def per_vm(self) -> ResourceAmounts:
        """The amounts of limited resources that one VM uses (cloudstack-protocol.md 0.4, limits)."""
        return ResourceAmounts(
            user_vm=1,
            volume=len(self.disks),
            cpu=self.cpu_number,
            memory_mib=self.memory_mib,
            primary_storage_bytes=sum(disk.size_bytes for disk in self.disks),
        )
