"""Requests in the form of Ganeti's protocol, from a few numbers: clusters of like nodes, instances of four sizes.

Sizes: nodes of 128 GiB, 32 CPUs and 4 TiB, instances from 512 MiB to 8 GiB.
"""

from typing import Any

FLAVOURS = ((512, 1, 4096), (2048, 1, 10240), (4096, 2, 20480), (8192, 4, 40960))
"""Memory in MiB, virtual CPUs, disk in MiB."""
DRBD_METADATA = 128
NODE_MEMORY = 131072
NODE_DISK = 4194304
TEMPLATES = ("diskless", "file", "sharedfile", "plain", "blockdev", "drbd", "rbd", "ext", "gluster")


def policy() -> dict[str, Any]:
    """The instance policy that a new cluster has, with no least number of disks and nics."""
    names = ("cpu-count", "disk-count", "disk-size", "memory-size", "nic-count", "spindle-use")
    return {
        "disk-templates": list(TEMPLATES),
        "minmax": [
            {
                "min": dict(zip(names, (1, 0, 1024, 128, 0, 1), strict=True)),
                "max": dict(zip(names, (8, 16, 1048576, 32768, 8, 12), strict=True)),
            }
        ],
        "std": dict(zip(names, (1, 1, 4096, 512, 1, 1), strict=True)),
        "spindle-ratio": 32.0,
        "vcpu-ratio": 4.0,
    }


def group_uuid(number: int) -> str:
    """The uuid of a group."""
    return f"00000000-0000-4000-8000-{number:012d}"


def instance(flavour: tuple[int, int, int], template: str) -> dict[str, Any]:
    """What an instance of a flavour has, placed or not."""
    memory, vcpus, disk = flavour
    return {
        "memory": memory,
        "vcpus": vcpus,
        "disk_template": template,
        "disk_space_total": disk + DRBD_METADATA if template == "drbd" else disk,
        "disks": [{"mode": "rw", "size": disk, "spindles": 1}],
        "nics": [{"mac": "aa:00:00:00:00:01", "ip": None, "mode": "bridged", "link": "br0", "bridge": "br0"}],
        "os": "noop",
        "spindle_use": 1,
        "tags": [],
        "hypervisor": "xen-pvm",
    }


def cluster(nodes: int, groups: int = 1) -> dict[str, Any]:
    """An empty cluster; nodes go to the groups in turn."""
    return {
        "version": 2,
        "cluster_name": "cluster.example.com",
        "cluster_tags": [],
        "enabled_hypervisors": ["xen-pvm"],
        "ipolicy": policy(),
        "nodegroups": {
            group_uuid(number): {
                "name": f"group{number}",
                "alloc_policy": "preferred",
                "networks": [],
                "ipolicy": policy(),
                "tags": [],
            }
            for number in range(groups)
        },
        "nodes": {f"node{number:04d}": _node(group_uuid(number % groups)) for number in range(nodes)},
        "instances": {},
        "request": {},
    }


def _node(group: str) -> dict[str, Any]:
    return {
        "group": group,
        "offline": False,
        "drained": False,
        "vm_capable": True,
        "ndparams": {"exclusive_storage": False, "spindle_count": 64},
        "tags": [],
        "total_memory": NODE_MEMORY,
        "reserved_memory": 1024,
        "free_memory": NODE_MEMORY - 1024,
        "total_disk": NODE_DISK,
        "free_disk": NODE_DISK,
        "total_cpus": 32,
        "reserved_cpus": 1,
        "free_spindles": 64,
    }


def placed(document: dict[str, Any], name: str, members: dict[str, Any], nodes: list[str]) -> None:
    """Put an instance on nodes, which have less free then."""
    document["instances"][name] = {**members, "nodes": nodes, "admin_state": "up"}
    document["nodes"][nodes[0]]["free_memory"] -= members["memory"]
    for node in nodes:
        document["nodes"][node]["free_disk"] -= members["disk_space_total"]


def wanted(
    count: int, template: str, flavours: tuple[tuple[int, int, int], ...] = FLAVOURS
) -> list[dict[str, Any]]:
    """Instances to place, of the flavours in turn."""
    return [
        {
            "name": f"new{number:05d}",
            "required_nodes": 2 if template == "drbd" else 1,
            **instance(flavours[number % len(flavours)], template),
        }
        for number in range(count)
    ]


def multi_allocate(document: dict[str, Any], instances: list[dict[str, Any]]) -> dict[str, Any]:
    """The document with a bulk request."""
    return {**document, "request": {"type": "multi-allocate", "instances": instances}}
