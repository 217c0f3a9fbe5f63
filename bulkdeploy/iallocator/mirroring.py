"""Chooses secondary nodes for instances whose primary nodes are known; the driver for Ganeti uses it.

The rules are those of ``allocate`` and ``allocate-secondary``: disk space, memory for the failure of any one other
node (N+1), exclusion tags, and locations.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Document, Instance, Members, wanted_instance
from bulkdeploy.iallocator.placing import Checks, Placing
from bulkdeploy.iallocator.refusal import Refusal
from bulkdeploy.iallocator.rules import Scope


class Mirroring:
    """Secondary nodes for the instances of a cluster. Every planned instance uses resources of the cluster."""

    def __init__(self, document: Document, *, closed: Collection[str] = ()) -> None:
        """Begin with the present state of the cluster. Nodes in ``closed`` do not become secondaries."""
        self._cluster = GanetiCluster(document)
        self._placing = Placing(self._cluster, Checks())
        self._closed = frozenset(self._cluster.position[name] for name in closed if name in self._cluster.position)

    def take(self, wanted: Members, nodes: Sequence[str]) -> None:
        """Count a new instance as placed on these nodes: the primary, then the secondary.

        Nothing is counted if the cluster lacks one of the nodes or has the instance already.
        """
        instance = wanted_instance(wanted)
        if instance.name not in self._cluster.document.instances and set(nodes) <= set(self._cluster.position):
            self._cluster.place(instance, self._positions(nodes))

    def mirror(self, wanted: Sequence[tuple[Members, str]]) -> list[str | Refusal]:
        """Return, in order, a secondary node for each new instance, or the reason why there is none.

        ``wanted`` has the members and the primary node of each instance. Instances with more memory are planned
        first.
        """
        instances = [wanted_instance(members) for members, _ in wanted]
        found: dict[int, str | Refusal] = {}
        for at in sorted(range(len(wanted)), key=lambda at: -instances[at].memory):
            found[at] = self._mirrored(instances[at], wanted[at][1])
        return [found[at] for at in range(len(wanted))]

    def moves_to(self, name: str, node: str) -> Refusal | None:
        """Return why ``node`` cannot become the secondary of the placed instance ``name``, or None if it can."""
        found = self._secondary(name, only=node)
        return found if isinstance(found, Refusal) else None

    def new_secondary(self, name: str) -> str | Refusal | None:
        """Return a better secondary node for the placed instance ``name``, or why there is none.

        Returns None if the present secondary is suitable, or if the instance does not exist or has no secondary.
        """
        instance = self._cluster.document.instances.get(name)
        if instance is None or len(instance.nodes) < 2:
            return None
        if not isinstance(self._secondary(name, only=instance.nodes[1]), Refusal):
            return None
        return self._secondary(name)

    def _secondary(self, name: str, *, only: str | None = None) -> str | Refusal:
        instance = self._cluster.document.instances[name]
        nodes = self._cluster.nodes_of(instance)
        self._cluster.take_away(instance, nodes)
        if only is None:
            found = self._placing.secondary(instance, Scope(), nodes[0], leaving=self._closed | {nodes[1]})
        else:  # locations only decide between several nodes
            at = self._cluster.position[only]
            leaving = self._closed if at == nodes[1] else frozenset[int]()
            scope = Scope(nodes=frozenset({at}))
            found = self._placing.secondary(instance, scope, nodes[0], leaving=leaving)
        self._cluster.place(instance, nodes)
        return found if isinstance(found, Refusal) else self._cluster.names[found]

    def _mirrored(self, instance: Instance, primary: str) -> str | Refusal:
        if primary not in self._cluster.position:
            return Refusal(instance, f"the cluster has no node {primary}")
        at = self._cluster.position[primary]
        scope = Scope(frozenset({int(self._cluster.group_of[at])}), frozenset({at}))
        runs = self._placing.primary(instance, scope, leaving=frozenset())
        if isinstance(runs, Refusal):
            return replace(runs, reason=f"{primary} cannot be the instance's primary: {runs.reason}")
        found = self._placing.secondary(instance, Scope(), at, leaving=self._closed)
        if isinstance(found, Refusal):
            return replace(found, reason=f"there is no secondary for primary {primary}: {found.reason}")
        self._cluster.place(instance, [at, found])
        return self._cluster.names[found]

    def _positions(self, names: Sequence[str]) -> list[int]:
        return [self._cluster.position[name] for name in names]
