"""Answers to requests that move placed instances, with the jobs that Ganeti runs to move them."""

from collections.abc import Callable
from typing import Any

from bulkdeploy.iallocator.answers import (
    Answer,
    Work,
    all_new,
    exchanged,
    new_primary,
    new_secondary,
)
from bulkdeploy.iallocator.document import Instance, MalformedDocument, Members, get, strings
from bulkdeploy.iallocator.refusal import Refusal
from bulkdeploy.iallocator.rules import UNALLOCABLE

EVAC_MODES = ("primary-only", "secondary-only", "all")

Move = tuple[list[int] | Refusal, list[dict[str, Any]]]
"""An instance's new nodes, or the reason why it stays, and Ganeti's opcodes that move it."""


def node_evacuate(work: Work, request: Members) -> Answer:
    """Return new nodes for instances whose primary, secondary or both must leave their nodes.

    Raises:
        MalformedDocument: the request lacks a member, or names an object that does not exist.
    """
    mode = get(request, "evac_mode", str, "the request")
    if mode not in EVAC_MODES:
        raise MalformedDocument(f"evac_mode must be one of {', '.join(EVAC_MODES)}, not {mode!r}")
    return _move_all(work, request, lambda instance: _evacuated(work, instance, mode))


def change_group(work: Work, request: Members) -> Answer:
    """Return nodes in other groups for some instances.

    If the request names no groups, every group that accepts new instances may be chosen.

    Raises:
        MalformedDocument: the request lacks a member, or names an object that does not exist.
    """
    uuids = strings(request, "target_groups", "the request")
    at = {group.uuid: at for at, group in enumerate(work.cluster.groups)}
    unknown = [uuid for uuid in uuids if uuid not in at]
    if unknown:
        raise MalformedDocument(f"target_groups must name groups of the cluster, not {', '.join(unknown)}")
    targets = frozenset(at[uuid] for uuid in uuids) or frozenset(
        at for at, rank in enumerate(work.cluster.policy_rank.tolist()) if rank != UNALLOCABLE
    )
    return _move_all(work, request, lambda instance: _changed(work, instance, targets))


def _move_all(work: Work, request: Members, move: Callable[[Instance], Move]) -> Answer:
    moved: list[list[Any]] = []
    failed: list[list[str]] = []
    jobs: list[list[dict[str, Any]]] = []
    for instance in [work.instance(name) for name in strings(request, "instances", "the request")]:
        nodes, opcodes = move(instance)
        if isinstance(nodes, Refusal):
            failed.append([instance.name, nodes.reason])
            continue
        group = work.cluster.groups[int(work.cluster.group_of[nodes[0]])]
        moved.append([instance.name, group.name, work.names(nodes)])
        jobs.append(opcodes)
    info = f"{len(failed)} instances failed to move and {len(moved)} were moved successfully"
    return Answer([moved, failed, jobs], info)


def _evacuated(work: Work, instance: Instance, mode: str) -> Move:
    nodes = work.cluster.nodes_of(instance)
    if not instance.movable:
        return Refusal(instance, f"disk template {instance.template} cannot be moved"), []
    if not instance.mirrored:
        if mode == "secondary-only":
            return Refusal(instance, f"disk template {instance.template} has no secondary node"), []
        return _moved_shared(work, instance, new_primary(work, instance, nodes))
    if mode == "primary-only":
        return exchanged(work, instance, nodes), [_start_on_secondary(instance)]
    if mode == "secondary-only":
        found = new_secondary(work, instance, nodes)
        return found, [] if isinstance(found, Refusal) else [_replace_secondary(work, instance, found[1])]
    return _moved_mirrored(work, instance, all_new(work, instance, nodes, work.group(nodes[0])))


def _changed(work: Work, instance: Instance, targets: frozenset[int]) -> Move:
    nodes = work.cluster.nodes_of(instance)
    if not instance.movable:
        return Refusal(instance, f"disk template {instance.template} cannot be moved"), []
    found = all_new(work, instance, nodes, targets - work.group(nodes[0]))
    return (_moved_mirrored if instance.mirrored else _moved_shared)(work, instance, found)


def _moved_shared(work: Work, instance: Instance, found: list[int] | Refusal) -> Move:
    if isinstance(found, Refusal):
        return found, []
    return found, [{**_start_on_secondary(instance), "target_node": work.cluster.names[found[0]]}]


def _moved_mirrored(work: Work, instance: Instance, found: list[int] | Refusal) -> Move:
    """Return the new nodes of a mirrored instance, and the steps that move it there.

    The new primary first becomes the secondary, then the instance migrates to it, then it gets its new secondary.
    """
    if isinstance(found, Refusal):
        return found, []
    primary, secondary = (_replace_secondary(work, instance, node) for node in found)
    return found, [primary, _start_on_secondary(instance), secondary]


def _replace_secondary(work: Work, instance: Instance, node: int) -> dict[str, Any]:
    return {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": instance.name,
        "mode": "replace_new_secondary",
        "remote_node": work.cluster.names[node],
        "disks": [],
        "early_release": False,
        "ignore_ipolicy": False,
    }


def _start_on_secondary(instance: Instance) -> dict[str, Any]:
    """Return the opcode that migrates an instance to its secondary node.

    The migration is live if the instance runs; otherwise Ganeti does a failover.
    """
    return {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": instance.name,
        "allow_failover": True,
        "allow_runtime_changes": False,
        "cleanup": False,
        "ignore_hvversions": True,
        "ignore_ipolicy": False,
    }
