"""Answers to requests for nodes of new and placed instances (one file: they share placing and removing).

Each function takes the members of a request and returns the protocol's ``result`` with an information line.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Instance, MalformedDocument, Members, get, strings, wanted_instance
from bulkdeploy.iallocator.placing import Placing
from bulkdeploy.iallocator.refusal import Refusal
from bulkdeploy.iallocator.rules import Scope


class Refused(Exception):
    """The request cannot be fulfilled. Ganeti shows the text to the user."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: the protocol's ``result``, and a line of information."""

    result: Any
    info: str


@dataclass(frozen=True, slots=True)
class Work:
    """The cluster and the planner with which requests are answered.

    Attributes:
        cluster: the cluster of the request.
        placing: places instances on the cluster.
        pairs: whether the answer to a bulk request lists failed instances as pairs of name and reason.
    """

    cluster: GanetiCluster
    placing: Placing
    pairs: bool = False

    def instance(self, name: str) -> Instance:
        """Return the placed instance with this name.

        Raises:
            MalformedDocument: the cluster has no such instance.
        """
        found = self.cluster.document.instances.get(name)
        if found is None:
            raise MalformedDocument(f"instance {name!r} is not in the cluster")
        return found

    def node(self, name: str) -> int:
        """Return the index of the node with this name.

        Raises:
            MalformedDocument: the cluster has no such node.
        """
        if name not in self.cluster.position:
            raise MalformedDocument(f"node {name!r} is not in the cluster")
        return self.cluster.position[name]

    def names(self, nodes: Sequence[int]) -> list[str]:
        """Return the names of the nodes with these indexes."""
        return [self.cluster.names[node] for node in nodes]

    def group(self, node: int) -> frozenset[int]:
        """Return a set with the index of the node's group."""
        return frozenset({int(self.cluster.group_of[node])})


Answers: TypeAlias = Callable[[Work, Members], Answer]


def allocate(work: Work, request: Members) -> Answer:
    """Return nodes for one new instance.

    Raises:
        MalformedDocument: the request lacks a member.
        Refused: no nodes can take the instance.
    """
    found = _place(work, request, _scope(work, request))
    if isinstance(found, Refusal):
        raise Refused(str(found))
    return Answer(work.names(found), f"group {_group_name(work, found)}")


def multi_allocate(work: Work, request: Members) -> Answer:
    """Return nodes for several new instances.

    Instances with more memory are placed first.

    The answer may leave out instances only if the request names a group. Otherwise Ganeti creates all instances or
    none.

    Raises:
        MalformedDocument: the request or one of its instances lacks a member.
        Refused: no nodes can take one of the instances, and the request names no group.
    """
    given = get(request, "instances", list, "the request")
    batch = _Batch(work, request, given, [wanted_instance(one) for one in given])
    largest_first = sorted(range(len(given)), key=lambda at: -batch.instances[at].memory)
    found = batch.place(largest_first)
    if all(work.placing.improves(batch.scope(at)) for at in range(len(given))):
        found = batch.improve(found, largest_first)
    return _bulk_answer(
        work, [found[at] for at in range(len(given))], batch.instances, partly="group_name" in request
    )


PASSES = 10
"""The most passes over the instances of a bulk request in which each may move to better nodes."""

MOST_PAIRS = 2_000_000
"""The most instances, times the square of the number of nodes, for which several passes are made."""

Found: TypeAlias = dict[int, list[int] | Refusal]


@dataclass(frozen=True, slots=True)
class _Batch:
    """The instances of a bulk request.

    Attributes:
        work: the cluster and the planner.
        request: the members of the request.
        given: the members of each instance.
        instances: the parsed instances, in the same order.
    """

    work: Work
    request: Members
    given: Sequence[Members]
    instances: Sequence[Instance]

    def place(self, order: Sequence[int]) -> Found:
        """Place the instances in this order, and return the nodes or the refusal of each, by index."""
        found: Found = {}
        hopeless: dict[tuple[Any, ...], Refusal] = {}
        for at in order:
            instance = self.instances[at]
            alike = (replace(instance, name=""), self.scope(at))
            nodes = hopeless.get(alike) or _place(self.work, self.given[at], self.scope(at))
            if isinstance(
                nodes, Refusal
            ):  # an equal instance will not fit later either, because no resources become free
                hopeless[alike] = nodes = replace(nodes, instance=instance)
            else:
                self.work.cluster.place(instance, nodes)
            found[at] = nodes
        return found

    def improve(self, found: Found, order: Sequence[int]) -> Found:
        """Move placed instances to lower the cluster score, and return the nodes of all instances.

        No order of placing is best for all clusters, so the order of the request is tried too, if all instances
        were placed. Then each instance moves to nodes that lower the score, until no move does.
        """
        small = len(self.instances) * len(self.work.cluster.nodes) ** 2 <= MOST_PAIRS
        self._descend(found, PASSES if small else 1)
        given_order = range(len(self.instances))
        if not small or list(order) == list(given_order) or _refused(found):
            return found
        score = self.work.placing.total_score()
        self._take_away(found)
        other = self.place(given_order)
        self._descend(other, PASSES)
        if not _refused(other) and self.work.placing.total_score() < score:
            return other
        self._take_away(other)
        for at, nodes in found.items():
            if not isinstance(nodes, Refusal):
                self.work.cluster.place(self.instances[at], nodes)
        return found

    def _descend(self, found: Found, passes: int) -> None:
        cluster = self.work.cluster
        for _ in range(passes):
            changed = False
            for at, nodes in found.items():
                if isinstance(nodes, Refusal):
                    continue
                instance = self.instances[at]
                cluster.take_away(instance, nodes)
                better = self.work.placing.better(instance, self.scope(at), nodes, mirrored=len(nodes) > 1)
                cluster.place(instance, better)
                found[at] = better
                changed |= better != nodes
            if not changed:
                return

    def _take_away(self, found: Found) -> None:
        for at, nodes in found.items():
            if not isinstance(nodes, Refusal):
                self.work.cluster.take_away(self.instances[at], nodes)

    def scope(self, at: int) -> Scope:
        """Return the nodes where an instance may be placed, by the members of the request and the instance."""
        return _scope(self.work, {**self.request, **self.given[at]})


def _refused(found: Found) -> bool:
    return any(isinstance(nodes, Refusal) for nodes in found.values())


def _bulk_answer(
    work: Work, found: Sequence[list[int] | Refusal], instances: Sequence[Instance], *, partly: bool
) -> Answer:
    failed = [each for each in found if isinstance(each, Refusal)]
    if failed and not partly:
        raise Refused(_summary(failed))
    placed = [
        [instance.name, work.names(nodes)]
        for instance, nodes in zip(instances, found, strict=True)
        if not isinstance(nodes, Refusal)
    ]
    reasons = f": {_summary(failed)}" if failed else ""
    return Answer(
        [placed, _failed(work, failed)],
        f"{len(failed)} instances failed to allocate and {len(placed)} were allocated successfully{reasons}",
    )


def relocate(work: Work, request: Members) -> Answer:
    """Return another secondary node for a mirrored instance, or another primary for one on shared storage.

    Raises:
        MalformedDocument: the request lacks a member, or does not match the instance.
        Refused: the instance cannot be moved, or no other node can take it.
    """
    instance = work.instance(get(request, "name", str, "the request"))
    leaving = frozenset(work.node(name) for name in strings(request, "relocate_from", "the request"))
    nodes = work.cluster.nodes_of(instance)
    if not instance.movable:
        raise Refused(f"{instance.name}: disk template {instance.template} cannot be relocated")
    if get(request, "required_nodes", int, "the request") != 1 or leaving != {nodes[-1]}:
        raise MalformedDocument(
            f"relocate must be for 1 node, from {work.cluster.names[nodes[-1]]}, for instance {instance.name!r}"
        )
    found = (new_secondary if instance.mirrored else new_primary)(work, instance, nodes)
    if isinstance(found, Refusal):
        raise Refused(str(found))
    return Answer(work.names(found[-1:]), "success")


def allocate_secondary(work: Work, request: Members) -> Answer:
    """Return a secondary node for an instance that has none.

    Raises:
        MalformedDocument: the request lacks a member.
        Refused: the instance has a secondary node, or no node can become one.
    """
    instance = work.instance(get(request, "name", str, "the request"))
    nodes = work.cluster.nodes_of(instance)
    if len(nodes) != 1:
        raise Refused(f"{instance.name} already has the secondary node {work.cluster.names[nodes[1]]}")
    mirrored = replace(instance, template="drbd")
    found = work.placing.secondary(mirrored, Scope(), nodes[0], leaving=frozenset())
    if isinstance(found, Refusal):
        raise Refused(str(found))
    return Answer(work.cluster.names[found], f"beside {work.cluster.names[nodes[0]]}")


def multi_evacuate(work: Work, request: Members) -> Answer:
    """Return new secondary nodes for all instances whose secondary node is one of the given nodes.

    In newer releases of Ganeti, node-evacuate replaces this request.

    Raises:
        MalformedDocument: the request lacks a member.
        Refused: there is no new secondary node for one of the instances.
    """
    leaving = frozenset(work.node(name) for name in strings(request, "evac_nodes", "the request"))
    moved, failed = [], []
    for instance in work.cluster.document.instances.values():
        nodes = work.cluster.nodes_of(instance)
        if leaving & set(nodes[1:]):
            found = new_secondary(work, instance, nodes, leaving=leaving)
            if isinstance(found, Refusal):
                failed.append(found)
            else:
                moved.append([instance.name, work.cluster.names[found[1]]])
    if failed:
        raise Refused(_summary(failed))
    return Answer(moved, f"{len(moved)} instances get another secondary node")


def new_secondary(
    work: Work, instance: Instance, nodes: Sequence[int], *, leaving: frozenset[int] = frozenset()
) -> list[int] | Refusal:
    """Move an instance's secondary to another node of its group, and return the new nodes."""
    work.cluster.take_away(instance, nodes)
    scope = Scope(work.group(nodes[0]))
    found = work.placing.secondary(instance, scope, nodes[0], leaving=leaving | {nodes[1]})
    return _moved(work, instance, nodes, found if isinstance(found, Refusal) else [nodes[0], found])


def new_primary(work: Work, instance: Instance, nodes: Sequence[int]) -> list[int] | Refusal:
    """Move an instance on shared storage to another node of its group, and return the instance's nodes.

    If no node is suitable, the instance stays and the refusal is returned.
    """
    work.cluster.take_away(instance, nodes)
    leaving = frozenset(nodes) | work.cluster.closed_to(nodes[0])
    found = work.placing.primary(instance, Scope(work.group(nodes[0])), leaving=leaving)
    return _moved(work, instance, nodes, found if isinstance(found, Refusal) else [found])


def exchanged(work: Work, instance: Instance, nodes: Sequence[int]) -> list[int] | Refusal:
    """Exchange the primary and the secondary node of an instance, and return the instance's nodes.

    If the secondary cannot run the instance, the instance stays and the refusal is returned.
    """
    if nodes[1] in work.cluster.closed_to(nodes[0]):
        source, destination = work.names(nodes)
        return Refusal(instance, f"migration tags forbid migrations from node {source} to node {destination}")
    work.cluster.take_away(instance, nodes)
    found = work.placing.runs(replace(instance, disk_space=0, spindles=0), nodes[1])
    return _moved(work, instance, nodes, found or [nodes[1], nodes[0]])


def all_new(work: Work, instance: Instance, nodes: Sequence[int], groups: frozenset[int]) -> list[int] | Refusal:
    """Move an instance to entirely different nodes of these groups, and return the instance's nodes.

    If no nodes are suitable, the instance stays and the refusal is returned.
    """
    work.cluster.take_away(instance, nodes)
    leaving = frozenset(nodes) if instance.mirrored else frozenset(nodes) | work.cluster.closed_to(nodes[0])
    found = work.placing.find(instance, Scope(groups), leaving=leaving, mirrored=instance.mirrored)
    return _moved(work, instance, nodes, found)


def _moved(work: Work, instance: Instance, nodes: Sequence[int], found: list[int] | Refusal) -> list[int] | Refusal:
    work.cluster.place(instance, nodes if isinstance(found, Refusal) else found)
    return replace(found, instance=instance) if isinstance(found, Refusal) else found


def _place(work: Work, members: Members, scope: Scope) -> list[int] | Refusal:
    instance = wanted_instance(members)
    required = get(members, "required_nodes", int, f"instance {instance.name!r}")
    if required not in (1, 2):
        raise MalformedDocument(f"required_nodes must be 1 or 2, not {required}, for instance {instance.name!r}")
    if instance.name in work.cluster.document.instances:
        return Refusal(instance, "an instance of this name is in the cluster")
    return work.placing.find(instance, scope, mirrored=required == 2)


def _scope(work: Work, members: Mapping[str, Any]) -> Scope:
    groups, nodes = None, None
    if members.get("group_name") is not None:
        wanted = get(members, "group_name", str, "the request")
        groups = frozenset(at for at, group in enumerate(work.cluster.groups) if wanted in (group.name, group.uuid))
        if not groups:
            raise MalformedDocument(f"group {wanted!r} is not in the cluster")
    if members.get("restrict-to-nodes") is not None:
        nodes = frozenset(work.node(name) for name in strings(members, "restrict-to-nodes", "the request"))
    return Scope(groups, nodes)


def _failed(work: Work, failed: Sequence[Refusal]) -> list[Any]:
    return [[each.instance.name, each.reason] if work.pairs else each.instance.name for each in failed]


MOST_SHOWN = 5
"""The most refusals in a line of information."""


def _summary(failed: Sequence[Refusal]) -> str:
    more = f" | and {len(failed) - MOST_SHOWN} more" if len(failed) > MOST_SHOWN else ""
    return " | ".join(str(each) for each in failed[:MOST_SHOWN]) + more


def _group_name(work: Work, nodes: Sequence[int]) -> str:
    return work.cluster.groups[int(work.cluster.group_of[nodes[0]])].name
