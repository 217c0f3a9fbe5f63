"""What Ganeti demands of nodes for new instances, said once more, slowly, for one set of placements at a time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

Document = Mapping[str, Any]


def breaches(document: Document, placements: Sequence[tuple[Mapping[str, Any], Sequence[str]]]) -> list[str]:
    """What is wrong with new instances on nodes (primary, then secondary)."""
    return [
        *(wrong for instance, nodes in placements for wrong in _of_one(document, instance, nodes)),
        *_of_amounts(document, placements),
        *_of_tags(document, placements),
    ]


def possible(document: Document, instance: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """All nodes, or pairs of nodes, that would take one instance."""
    chosen = permutations(document["nodes"], instance["required_nodes"])
    return [nodes for nodes in chosen if not breaches(document, [(instance, nodes)])]


def _of_one(document: Document, instance: Mapping[str, Any], nodes: Sequence[str]) -> list[str]:
    wrong = []
    members = [document["nodes"][name] for name in nodes]
    if len(set(nodes)) != instance["required_nodes"]:
        wrong.append("number of nodes")
    if any(node["offline"] or node["drained"] or not node.get("vm_capable", True) for node in members):
        wrong.append("state")
    groups = {node["group"] for node in members}
    if len(groups) != 1:
        wrong.append("one group")
    group = document["nodegroups"][members[0]["group"]]
    named = instance.get("group_name")
    if group["alloc_policy"] == "unallocable" and named is None:
        wrong.append("alloc_policy")
    if named not in (None, group["name"]):
        wrong.append("group_name")
    if not set(nodes) <= set(instance.get("restrict-to-nodes", nodes)):
        wrong.append("restrict-to-nodes")
    peers = [node for node in document["nodes"].values() if node["group"] == members[0]["group"]]
    exclusive = any(node["ndparams"]["exclusive_storage"] for node in peers)
    if not any(_within(pair, instance, exclusive=exclusive) for pair in group["ipolicy"]["minmax"]):
        wrong.append("minmax")
    if instance["disk_template"] not in group["ipolicy"]["disk-templates"]:
        wrong.append("disk template")
    if any(nic.get("network") not in (None, *group["networks"]) for nic in instance["nics"]):
        wrong.append("network")
    return wrong


def _within(pair: Mapping[str, Mapping[str, int]], instance: Mapping[str, Any], *, exclusive: bool) -> bool:
    spindles = sum(disk.get("spindles") or 0 for disk in instance["disks"])
    amounts = [
        ("memory-size", instance["memory"]),
        ("cpu-count", instance["vcpus"]),
        ("disk-count", len(instance["disks"])),
        ("spindle-use", spindles if exclusive else instance["spindle_use"]),
        *(("disk-size", disk["size"]) for disk in instance["disks"] if instance["disk_template"] != "diskless"),
    ]
    return all(pair["min"][name] <= amount <= pair["max"][name] for name, amount in amounts)


def _of_amounts(document: Document, placements: Sequence[tuple[Mapping[str, Any], Sequence[str]]]) -> list[str]:
    used = {name for _, nodes in placements for name in nodes}
    return [f"{wrong} of {name}" for name in used for wrong in _of_node(document, name, placements)]


def _of_node(
    document: Document, name: str, placements: Sequence[tuple[Mapping[str, Any], Sequence[str]]]
) -> list[str]:
    """Memory, the memory kept for any one peer's failure, disk, virtual CPUs and spindles."""
    node = document["nodes"][name]
    policy = document["nodegroups"][node["group"]]["ipolicy"]
    old = [(instance, instance["nodes"]) for instance in document["instances"].values()]
    new = [instance for instance, nodes in placements if nodes[0] == name]
    here = [*new, *(instance for instance, nodes in old if nodes[0] == name)]
    local = [placement for placement in placements if placement[0]["disk_template"] in ("plain", "drbd")]
    stored = [instance for instance, nodes in local if name in nodes]
    placed = [instance for instance, nodes in placements if name in nodes]
    down = sum(one["memory"] for one, nodes in old if nodes[0] == name and one.get("admin_state") == "down")
    kept: defaultdict[str, int] = defaultdict(int)
    for instance, nodes in [*old, *placements]:
        if list(nodes[1:]) == [name]:
            kept[nodes[0]] += instance["memory"]
    memory = node["free_memory"] - down - sum(one["memory"] for one in new) - max(kept.values(), default=0)
    disk = sum(one["disk_space_total"] for one in stored)
    spindles = sum(disk.get("spindles") or 0 for one in placed for disk in one["disks"])
    vcpus = node["reserved_cpus"] + sum(one["vcpus"] for one in here)
    exclusive = node["ndparams"]["exclusive_storage"]
    shared = policy["spindle-ratio"] * node["ndparams"]["spindle_count"]
    wrong = {
        "memory": memory < 1,
        "disk": disk > 0 and node["free_disk"] - disk < 1,
        "virtual CPUs": bool(new) and vcpus > policy["vcpu-ratio"] * node["total_cpus"],
        "spindles": exclusive and spindles > node["free_spindles"],
        "spindle use": bool(new) and not exclusive and sum(one["spindle_use"] for one in here) > shared,
    }
    return [what for what, broken in wrong.items() if broken]


def _of_tags(document: Document, placements: Sequence[tuple[Mapping[str, Any], Sequence[str]]]) -> list[str]:
    prefix = "htools:iextags:"
    kinds = [tag.removeprefix(prefix) + ":" for tag in document["cluster_tags"] if tag.startswith(prefix)]
    seen = {
        (instance["nodes"][0], tag)
        for instance in document["instances"].values()
        for tag in instance["tags"]
        if tag.startswith(tuple(kinds))
    }
    wrong = []
    for instance, nodes in placements:
        for tag in instance["tags"]:
            if tag.startswith(tuple(kinds)):
                if (nodes[0], tag) in seen:
                    wrong.append(f"{tag} twice on {nodes[0]}")
                seen.add((nodes[0], tag))
    return wrong
