"""The vocabulary of the infrastructure: zones, clusters, hosts, storage pools and hypervisors."""

from collections.abc import Mapping
from enum import StrEnum

ARCHITECTURE = "x86_64"
"""``arch`` of every cluster and host."""


class NetworkType(StrEnum):
    """The network types of zones (response field ``networktype``)."""

    BASIC = "Basic"
    ADVANCED = "Advanced"


class AllocationState(StrEnum):
    """The state of a zone, pod or cluster that decides whether new VMs may be placed there."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class AllocationPolicy(StrEnum):
    """The preference of a pod or cluster for new VMs, from most to least: Ganeti's alloc_policy."""

    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"

    @property
    def rank(self) -> int:
        """The position in the order of policies, from 0. Of a pod and its cluster, the higher rank applies."""
        return list(AllocationPolicy).index(self)


ALLOCATION_POLICIES = tuple(policy.value for policy in AllocationPolicy)


class HostState(StrEnum):
    """The states of hosts (response field ``state``), which tell whether a host's agent answers."""

    UP = "Up"
    DOWN = "Down"
    DISCONNECTED = "Disconnected"
    ALERT = "Alert"
    CONNECTING = "Connecting"
    REMOVED = "Removed"


class HostResourceState(StrEnum):
    """The ``resourcestate`` of a host: whether an operator allows VMs on it."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"
    PREPARE_FOR_MAINTENANCE = "PrepareForMaintenance"
    MAINTENANCE = "Maintenance"
    ERROR_IN_MAINTENANCE = "ErrorInMaintenance"
    ERROR_IN_PREPARE_FOR_MAINTENANCE = "ErrorInPrepareForMaintenance"


class PoolScope(StrEnum):
    """The part of a zone from which a primary storage pool can be reached."""

    ZONE = "ZONE"
    CLUSTER = "CLUSTER"
    HOST = "HOST"


class StorageType(StrEnum):
    """The ``storagetype`` of an offering: ``local`` uses pools of HOST scope, ``shared`` uses all other pools."""

    SHARED = "shared"
    LOCAL = "local"


class HypervisorType(StrEnum):
    """The hypervisor types in CloudStack's spelling."""

    XENSERVER = "XenServer"
    KVM = "KVM"
    VMWARE = "VMware"
    HYPERV = "Hyperv"
    BAREMETAL = "BareMetal"
    SIMULATOR = "Simulator"
    OVM = "Ovm"
    OVM3 = "Ovm3"
    LXC = "LXC"
    EXTERNAL = "External"

    @classmethod
    def parse(cls, text: str) -> "HypervisorType | None":
        """Return the type with this name, ignoring case, or None if there is none."""
        return next((kind for kind in cls if kind.value.lower() == text.lower()), None)


VMS_LIMIT: Mapping[str, int] = {
    HypervisorType.KVM: 150,
    HypervisorType.VMWARE: 128,
    HypervisorType.XENSERVER: 500,
    HypervisorType.HYPERV: 1024,
}
"""VMs that a host holds at most, by hypervisor."""

OTHER_VMS_LIMIT = 50
"""The same for hypervisors that have no entry."""

LOCAL_POOL_TYPES: Mapping[str, str] = {HypervisorType.XENSERVER: "EXT", HypervisorType.VMWARE: "VMFS"}
"""Type of the pool of a host's own disks by hypervisor; the others keep files."""


class AffinityType(StrEnum):
    """Affinity group types, in CloudStack's spelling (cloudstack-protocol.md 6.5)."""

    HOST_ANTI_AFFINITY = "host anti-affinity"
    HOST_AFFINITY = "host affinity"
    NON_STRICT_HOST_ANTI_AFFINITY = "non-strict host anti-affinity"
    NON_STRICT_HOST_AFFINITY = "non-strict host affinity"
    EXPLICIT_DEDICATION = "ExplicitDedication"


class TemplateKind(StrEnum):
    """The kind of an image. Templates and ISOs share one table."""

    TEMPLATE = "template"
    ISO = "iso"


class VolumeType(StrEnum):
    """The types of volumes (response field ``type``)."""

    ROOT = "ROOT"
    DATADISK = "DATADISK"


PRIMARY_PROVIDER, IMAGE_PROVIDER = "DefaultPrimary", "NFS"
"""Who provides storage pools, and who image stores."""
