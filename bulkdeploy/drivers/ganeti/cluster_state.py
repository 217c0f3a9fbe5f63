"""A cluster's state, read over RAPI, in the format of Ganeti's allocator requests.

Memory is counted as for a host that is added: the memory of nodes, minus reserved memory and the memory that
instances may use, whatever they use now. Jobs are read before instances, so a job that ends meanwhile is counted
twice, which is recognised, and never missed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bulkdeploy.drivers.ganeti.creations import active_ops
from bulkdeploy.drivers.ganeti.rapi import Rapi, path_of
from bulkdeploy.iallocator.document import Document, read_document

DRBD = "drbd"
METADATA_MIB = 128
"""The space that DRBD adds to each disk on both nodes, in MiB."""

NODE_FIELDS = (
    *("name", "group.uuid", "offline", "drained", "vm_capable", "tags"),
    *("mtotal", "dtotal", "dfree", "spfree", "ctotal", "cnos", "ndparams"),
)
INSTANCE_FIELDS = (
    *("name", "pnode", "snodes", "disk_template", "admin_state", "tags"),
    *("beparams", "disk.sizes", "disk.spindles", "nic.count"),
)
GROUP_FIELDS = ("uuid", "name", "alloc_policy", "ipolicy")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of a cluster, and the changes that running jobs are about to make.

    Attributes:
        document: the state as an allocator request.
        beginning: the instances that running jobs create, in the format of the allocator protocol, each with the
            names of its primary and secondary node.
    """

    document: Document
    beginning: Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]


def read_state(rapi: Rapi, *, reserved_mib: int, timeout_s: float) -> ClusterState:
    """Read the state of the cluster.

    Nodes that do not answer count as offline.

    Args:
        rapi: the client of the cluster.
        reserved_mib: the memory of each node that instances do not get.
        timeout_s: the time limit of each request in seconds.

    Raises:
        NotAnswered, JobFailed: a query failed.
        MalformedDocument: this Ganeti's responses do not match the allocator protocol.
    """
    ops = [one for _, many in active_ops(rapi, timeout_s=timeout_s) for one in many]
    rows = rapi.query("instance", INSTANCE_FIELDS, timeout_s=timeout_s)
    instances = {row[0]: _instance(*row[1:]) for row in rows}
    groups = rapi.query("group", GROUP_FIELDS, timeout_s=timeout_s)
    rows = rapi.query("node", NODE_FIELDS, timeout_s=timeout_s)
    nodes = {row[0]: _node(row, instances.values(), reserved_mib) for row in rows}
    for one in ops:
        _let_move(one, instances, nodes)
    document = {
        "cluster_tags": rapi.send("GET", path_of("tags"), timeout_s=timeout_s),
        "nodegroups": {
            uuid: {"name": name, "alloc_policy": policy, "ipolicy": ipolicy, "networks": []}
            for uuid, name, policy, ipolicy in groups
        },
        "nodes": nodes,
        "instances": instances,
        "request": {},
    }
    beginning = [
        (as_wanted(one), tuple(one[key] for key in ("pnode", "snode") if one.get(key)))
        for one in _creations(ops)
        if one.get("pnode")
    ]
    return ClusterState(read_document(document), beginning)


def as_wanted(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the definition of an instance in a creation request to the format of the allocator protocol."""
    parameters = definition.get("beparams") or {}
    memory = parameters.get("maxmem", parameters.get("memory", 0))
    template = definition.get("disk_template") or ""
    disks = [{"size": int(disk["size"])} for disk in definition.get("disks") or ()]
    return {
        "name": definition.get("instance_name") or definition.get("name") or "",
        "memory": int(memory),
        "vcpus": int(parameters.get("vcpus", 1)),
        "spindle_use": int(parameters.get("spindle_use", 1)),
        "disk_template": template,
        "disk_space_total": _space(template, [disk["size"] for disk in disks]),
        "disks": disks,
        "nics": [{} for _ in definition.get("nics") or ()],
        "tags": list(definition.get("tags") or ()),
    }


def _creations(ops: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for one in ops:
        match one.get("OP_ID"):
            case "OP_INSTANCE_CREATE":
                yield one
            case "OP_INSTANCE_MULTI_ALLOC":
                yield from one["instances"]


def _let_move(
    one: Mapping[str, Any], instances: Mapping[str, dict[str, Any]], nodes: Mapping[str, dict[str, Any]]
) -> None:
    """Count an instance whose secondary is being replaced on the new node, including its disk space.

    ``one`` is an opcode of a running job. Other opcodes change nothing.
    """
    found, node = instances.get(one.get("instance_name", "")), one.get("remote_node") or ""
    if found is not None and node in nodes and one.get("OP_ID") == "OP_INSTANCE_REPLACE_DISKS":
        found["nodes"] = [found["nodes"][0], node]
        nodes[node]["free_disk"] -= found["disk_space_total"]


def _space(template: str, sizes: Sequence[int]) -> int:
    return sum(sizes) + (METADATA_MIB * len(sizes) if template == DRBD else 0)


def _instance(
    primary: str,
    secondaries: Sequence[str],
    template: str,
    admin_state: str,
    tags: Sequence[str],
    parameters: Mapping[str, Any],
    sizes: Sequence[int],
    spindles: Sequence[int | None],
    nics: int,
) -> dict[str, Any]:
    return {
        "nodes": [primary, *secondaries],
        "disk_template": template,
        "admin_state": admin_state,
        "tags": list(tags),
        "memory": int(parameters["maxmem"]),
        "vcpus": int(parameters["vcpus"]),
        "spindle_use": int(parameters["spindle_use"]),
        "disks": [{"size": size, "spindles": each} for size, each in zip(sizes, spindles, strict=True)],
        "disk_space_total": _space(template, sizes),
        "nics": [{} for _ in range(nics)],
    }


def _node(row: Sequence[Any], instances: Any, reserved_mib: int) -> dict[str, Any]:
    name, group, offline, drained, capable, tags, memory, total_disk, free_disk, spindles, cpus, own_cpus, more = (
        row
    )
    running = sum(one["memory"] for one in instances if one["nodes"][0] == name and one["admin_state"] == "up")
    total = max((memory or 0) - reserved_mib, 0)
    return {
        "group": group,
        "offline": offline or (capable and memory is None),
        "drained": drained,
        "vm_capable": capable,
        "tags": list(tags),
        "ndparams": more,
        "total_memory": total,
        "free_memory": total - running,
        "total_disk": total_disk or 0,
        "free_disk": free_disk or 0,
        "free_spindles": spindles or 0,
        "total_cpus": cpus or 0,
        "reserved_cpus": own_cpus or 0,
    }


def memory_for_guests(
    nodes: Sequence[Sequence[Any]], instances: Sequence[Sequence[Any]], *, reserved_mib: int, tag: str
) -> dict[str, int]:
    """Return the memory in MiB that the service's instances may use, by the names of the nodes that answer.

    This is the node's memory minus the reserved memory, the memory of other instances, and the most memory that the
    failure of one other node would move to the node (N+1). Instances of offline nodes have moved already.

    Args:
        nodes: the values of MEMORY_FIELDS_OF_NODES for each node.
        instances: the values of MEMORY_FIELDS_OF_INSTANCES for each instance.
        reserved_mib: the memory of each node that instances do not get.
        tag: the beginning of a tag that only the service's instances have.
    """
    offline = {name for name, is_offline, _ in nodes if is_offline}
    theirs: Counter[str] = Counter()
    brought: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for primary, secondaries, admin_state, tags, parameters in instances:
        memory = int(parameters["maxmem"])
        if not any(each.startswith(tag) for each in tags):
            theirs[primary] += memory
        if primary not in offline and admin_state != "offline":
            for secondary in secondaries:
                brought[secondary][primary] += memory
    kept = {name: theirs[name] + max(brought[name].values(), default=0) for name, _, _ in nodes}
    return {
        name: max(total - reserved_mib - kept[name], 0)
        for name, is_offline, total in nodes
        if not is_offline and total is not None
    }


MEMORY_FIELDS_OF_NODES = ("name", "offline", "mtotal")
MEMORY_FIELDS_OF_INSTANCES = ("pnode", "snodes", "admin_state", "tags", "beparams")
