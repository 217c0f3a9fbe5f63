"""Ganeti's rules for instances as placement rules, and the amounts that nodes lack by each rule.

The rules are those of doc/iallocator.rst and htools: some memory and disk stay free, virtual CPUs of primaries are
within the group's ratio, and a node runs one instance per exclusion tag. Soft rules are those that ``hail
--ignore-soft-errors`` ignores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Instance
from bulkdeploy.placement.model import Flags, Ints, PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.rule import Rule
from bulkdeploy.placement.rules import avoided, cpu, host_not_enabled, host_not_up, memory, out_of_scope


@dataclass(frozen=True, slots=True)
class Scope:
    """The nodes and groups where an instance may be placed.

    Attributes:
        groups: indexes of groups; None: all groups whose policy is not unallocable.
        nodes: indexes of nodes; None: all nodes.
    """

    groups: frozenset[int] | None = None
    nodes: frozenset[int] | None = None


class InstanceRules:
    """The rules for a cluster. They apply to the attributes ``instance`` and ``scope``."""

    def __init__(self, cluster: GanetiCluster) -> None:
        self._cluster = cluster
        self.instance: Instance
        self.scope = Scope()

    def primary(self, *, soft: bool) -> list[Rule]:
        """Return the rules for a primary node, with or without soft rules."""
        rules = [*self._of_any_node(), self._rule("disk", 170, excludes_hosts=self._disk)]
        if soft:
            tags = self._rule("tags", 155, excludes_hosts=self._tags)
            rules += [cpu.RULE, self._rule("spindle_ratio", 165, excludes_hosts=self._spindle_ratio), tags]
        return [*rules, memory.RULE]

    def secondary(self, *, soft: bool, with_memory: bool = True) -> list[Rule]:
        """Return the rules for a secondary node, with or without soft rules.

        The rule about memory is soft; ``with_memory`` includes it. It depends on the primary node.
        """
        rules = [*self._of_any_node(), self._rule("disk", 170, excludes_hosts=self._disk)]
        if soft:
            rules.append(self._rule("spindle_ratio", 165, excludes_hosts=self._spindle_ratio))
        return [*rules, memory.RULE] if soft and with_memory else rules

    def _of_any_node(self) -> Iterator[Rule]:
        yield from (out_of_scope.RULE, host_not_up.RULE, host_not_enabled.RULE, avoided.RULE)
        yield self._rule("elsewhere", 20, excludes_hosts=self._elsewhere)
        yield self._rule("group", 25, excludes_clusters=self._groups)
        yield self._rule("policy", 30, excludes_clusters=self._policy)
        yield self._rule("networks", 35, excludes_clusters=self._networks)
        yield self._rule("spindles", 175, excludes_hosts=self._spindles)

    @staticmethod
    def _rule(
        reason: str,
        order: int,
        *,
        excludes_hosts: Callable[[], Flags | None] | None = None,
        excludes_clusters: Callable[[], Flags | None] | None = None,
    ) -> Rule:
        def bound(
            function: Callable[[], Flags | None] | None,
        ) -> Callable[[ZoneSnapshot, PlacementRequest], Flags | None] | None:
            return None if function is None else lambda _zone, _request: function()

        return Rule(
            reason=reason,
            text=TEXTS[reason],
            remedy="",
            order=order,
            excludes_hosts=bound(excludes_hosts),
            excludes_clusters=bound(excludes_clusters),
        )

    def _elsewhere(self) -> Flags | None:
        if self.scope.nodes is None:
            return None
        outside = np.ones(len(self._cluster.nodes), dtype=bool)
        outside[list(self.scope.nodes)] = False
        return outside

    def _groups(self) -> Flags:
        if self.scope.groups is None:
            unallocable: Flags = self._cluster.policy_rank == UNALLOCABLE
            return unallocable
        outside = np.ones(len(self._cluster.groups), dtype=bool)
        outside[list(self.scope.groups)] = False
        return outside

    def _policy(self) -> Flags:
        return np.array(
            [breach(self._cluster, group, self.instance) is not None for group in range(len(self._cluster.groups))],
            dtype=bool,
        )

    def _networks(self) -> Flags | None:
        if not self.instance.networks:
            return None
        return np.array(
            [not self.instance.networks <= group.networks for group in self._cluster.groups], dtype=bool
        )

    def _disk(self) -> Flags | None:
        if self.instance.disk_space == 0:
            return None
        return self._cluster.free_disk <= self.instance.disk_space

    def _spindles(self) -> Flags | None:
        if not self.instance.names_spindles:
            return self._cluster.exclusive
        if not self.instance.spindles:
            return None
        return self._cluster.exclusive & (self._cluster.free_spindles < self.instance.spindles)

    def _spindle_ratio(self) -> Flags | None:
        cluster = self._cluster
        if not self.instance.is_local:
            return None
        return ~cluster.exclusive & (cluster.spindles_used + self.instance.spindle_use > cluster.spindle_limit)

    def _tags(self) -> Flags | None:
        cluster = self._cluster
        clashing = [cluster.tagged[tag] > 0 for tag in self.instance.tags if tag in cluster.tagged]
        return np.any(clashing, axis=0) if clashing else None


UNALLOCABLE = 2

TEXTS = {
    "out_of_scope": "outside the group requested",
    "host_not_up": "offline",
    "host_not_enabled": "drained, or not for instances",
    "avoided": "the instance must leave this node",
    "elsewhere": "not among the nodes requested",
    "group": "the node's group takes no new instances, or is not among those requested",
    "policy": "the instance policy of the node's group forbids the instance",
    "networks": "the node's group lacks a network of the instance",
    "cpu": "virtual CPUs",
    "tags": "runs an instance with the same exclusion tag",
    "memory": "memory",
    "spindle_ratio": "spindle use",
    "disk": "disk space",
    "spindles": "has exclusive storage, and a disk of the instance has no number of spindles",
}
"""The meaning of each reason, as a statement about a node or as the name of an amount."""


def breach(cluster: GanetiCluster, position: int, instance: Instance) -> str | None:
    """Return which rule of a group's policy an instance breaks, or None if it breaks none.

    In a group with exclusive storage, the limits of ``spindle-use`` apply to the spindles of the instance's disks.
    """
    group = cluster.groups[position]
    if instance.template not in group.policy.templates:
        return f"disk template {instance.template} is not allowed in group {group.name}"
    amounts = {
        "memory-size": (instance.memory,),
        "cpu-count": (instance.vcpus,),
        "disk-size": instance.disk_sizes if instance.template != "diskless" else (),
        "disk-count": (len(instance.disk_sizes),),
        "spindle-use": _spindle_use(instance, is_exclusive=bool(cluster.exclusive_groups[position])),
    }
    found = None
    for least, most in group.policy.bounds:
        wrong = next(
            (
                f"{name} must be from {least[name]} to {most[name]} in group {group.name}, not {amount}"
                for name, each in amounts.items()
                for amount in each
                if not least[name] <= amount <= most[name]
            ),
            None,
        )
        if wrong is None:
            return None
        found = found or wrong
    return found


def _spindle_use(instance: Instance, *, is_exclusive: bool) -> tuple[int, ...]:
    if not is_exclusive:
        return (instance.spindle_use,)
    return (instance.spindles,) if instance.names_spindles else ()


def lacking(cluster: GanetiCluster, reason: str, instance: Instance, free_memory: Ints) -> tuple[Ints, str] | None:
    """Return the amount that each node lacks, with its unit, or None if the reason is not an amount."""
    if reason == "spindles" and not instance.names_spindles:
        return None
    amounts: dict[str, tuple[Ints, str]] = {
        "memory": (instance.memory + 1 - free_memory, "MiB of memory"),
        "disk": (instance.disk_space + 1 - cluster.free_disk, "MiB of disk space"),
        "cpu": (instance.vcpus - cluster.free_vcpus, "virtual CPUs"),
        "spindles": (instance.spindles - cluster.free_spindles, "spindles"),
        "spindle_ratio": (
            cluster.spindles_used + instance.spindle_use - cluster.spindle_limit,
            "of the spindle ratio",
        ),
    }
    return amounts.get(reason)
