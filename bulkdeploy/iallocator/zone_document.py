"""A zone in the format of Ganeti's allocator requests (doc/iallocator.rst, version 2), for allocator programs.

Hosts become nodes, clusters become node groups, and claims become instances. The numbers are those of the placement
ledger: virtual CPUs are MHz with a ratio of 1, and spindles are guests. The protocol requires some free memory and
disk, so hosts have 1 MiB more than in the ledger. Shared storage is not part of a node's disk space (template
``ext``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bulkdeploy.domain.infrastructure.topology import AffinityType, StorageType
from bulkdeploy.iallocator.document import ALLOC_POLICIES, EXCLUSION_PREFIX, MOST, SPEC, VERSION
from bulkdeploy.placement.model import Flags, Ints, PlacementRequest, ZoneSnapshot, total

MIB = 1 << 20
TEMPLATES = ("diskless", "ext", "plain")
APART = "apart"
"""The prefix of the exclusion tags of affinity groups. VMs with the same tag get different hosts."""


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """A claim of a VM or of a migration on a host.

    Attributes:
        name: the uuid of the VM or of the migration.
        local_disk_mib: the MiB of disks in local storage of the host.
    """

    name: str
    host_id: int
    cpu_mhz: int
    memory_mib: int
    local_disk_mib: int = 0


@dataclass(frozen=True, slots=True)
class NamedZone:
    """The data of a zone that its snapshot does not contain.

    Attributes:
        name: the zone's name.
        hosts: the unique node name of each host id.
        clusters: the uuid and the name of each cluster id.
        instances: the claims on hosts.
    """

    name: str
    hosts: Mapping[int, str]
    clusters: Mapping[int, tuple[str, str]]
    instances: Sequence[PlacedInstance]


def zone_document(zone: NamedZone, snapshot: ZoneSnapshot, usable: Flags | None = None) -> dict[str, Any]:
    """Return the document that describes a zone to an allocator program, without a request.

    ``usable`` marks the hosts that may get VMs; the other hosts are described as drained. None means all enabled
    hosts.
    """
    hosts, clusters = snapshot.hosts, snapshot.clusters
    total_disk, free_disk = _local_storage(snapshot)
    limits = np.maximum(hosts.memory_limit, hosts.memory_used)
    enabled = hosts.enabled if usable is None else usable
    group_of = [zone.clusters[cluster][0] for cluster in clusters.id.tolist()]
    nodes = {
        zone.hosts[host]: _node(group_of[hosts.cluster[at]], up=bool(hosts.up[at]), drained=not enabled[at])
        | {
            "total_memory": int(limits[at]) + 1,
            "free_memory": int(limits[at] - hosts.memory_used[at]) + 1,
            "total_cpus": int(hosts.cpu_limit[at]),
            "total_disk": int(total_disk[at]) + 1,
            "free_disk": int(free_disk[at]) + 1,
            "ndparams": {"exclusive_storage": False, "spindle_count": int(hosts.vms_limit[at])},
        }
        for at, host in enumerate(hosts.id.tolist())
    }
    groups = {
        zone.clusters[cluster][0]: {
            "name": zone.clusters[cluster][1],
            "alloc_policy": ALLOC_POLICIES[int(clusters.policy[at])],
            "networks": [],
            "tags": [],
            "ipolicy": POLICY,
        }
        for at, cluster in enumerate(clusters.id.tolist())
    }
    return {
        "version": VERSION,
        "cluster_name": zone.name,
        "cluster_tags": [f"{EXCLUSION_PREFIX}{APART}"],
        "enabled_hypervisors": ["xen-pvm"],
        "ipolicy": POLICY,
        "nodegroups": groups,
        "nodes": nodes,
        "instances": {one.name: _placed(one, zone) for one in zone.instances if one.host_id in zone.hosts},
    }


def new_instance(name: str, request: PlacementRequest) -> dict[str, Any]:
    """Return one VM of a placement request in the format of the protocol's allocation requests."""
    local = sum(_mib(disk.size_bytes) for disk in request.disks if disk.storage_type is StorageType.LOCAL)
    template = "plain" if local else "ext" if request.disks else "diskless"
    return {
        "name": name,
        "required_nodes": 1,
        **_instance(request.cpu_number * request.cpu_mhz, request.memory_mib, template, local),
        "disks": [{"mode": "rw", "size": _mib(disk.size_bytes)} for disk in request.disks],
        "tags": [
            f"{APART}:{affinity.group_id}"
            for affinity in request.affinities
            if affinity.kind is AffinityType.HOST_ANTI_AFFINITY
        ],
    }


def _placed(one: PlacedInstance, zone: NamedZone) -> dict[str, Any]:
    template = "plain" if one.local_disk_mib else "ext"
    return {
        **_instance(one.cpu_mhz, one.memory_mib, template, one.local_disk_mib),
        "nodes": [zone.hosts[one.host_id]],
        "admin_state": "up",
    }


def _instance(cpu_mhz: int, memory_mib: int, template: str, disk_mib: int) -> dict[str, Any]:
    return {
        "vcpus": cpu_mhz,
        "memory": memory_mib,
        "spindle_use": 1,
        "disk_template": template,
        "disk_space_total": disk_mib,
        "disks": [{"mode": "rw", "size": disk_mib}] if disk_mib else [],
        "nics": [],
        "tags": [],
        "os": "",
        "hypervisor": "xen-pvm",
    }


def _node(group: str, *, up: bool, drained: bool) -> dict[str, Any]:
    return {
        "group": group,
        "offline": not up,
        "drained": drained,
        "vm_capable": True,
        "reserved_memory": 0,
        "reserved_cpus": 0,
        "free_spindles": 0,
        "tags": [],
    }


def _local_storage(snapshot: ZoneSnapshot) -> tuple[Ints, Ints]:
    """Return the total and the free MiB of each host's local pools."""
    pools = snapshot.pools
    own = (pools.host >= 0) & pools.up
    count = len(snapshot.hosts.id)
    free = np.maximum(pools.limit - pools.allocated, 0)
    of_all, of_free = (total(pools.host[own], amounts[own] // MIB, count) for amounts in (pools.limit, free))
    return of_all, of_free


def _mib(size_bytes: int) -> int:
    return -(-size_bytes // MIB)


WRITTEN_SPEC = (*SPEC, "nic-count")
"""The amounts in the instance policies that requests contain; hail requires ``nic-count``."""

POLICY: dict[str, Any] = {
    "minmax": [{"min": dict.fromkeys(WRITTEN_SPEC, 0), "max": dict.fromkeys(WRITTEN_SPEC, MOST)}],
    "std": dict.fromkeys(WRITTEN_SPEC, 1),
    "disk-templates": list(TEMPLATES),
    "vcpu-ratio": 1.0,
    "spindle-ratio": 1.0,
}
"""An instance policy without limits, because the zone's own rules apply."""
