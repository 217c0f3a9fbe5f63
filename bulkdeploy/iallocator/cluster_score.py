"""Ganeti's cluster score, as hbal and hail compute it, for a node group with one more instance.

The score is a weighted sum over the online nodes of a group; 0 is best. Standard deviations are those of the whole
population. No load figures are read, so an instance counts 1 for each kind of load, as it does for hail.

| term | weight | of |
|---|---|---|
| free memory, free disk, virtual CPUs, spindles, each as a share of the node's | 1 | standard deviation |
| memory reserved for the failure of a peer, as a share | 1, 0.25 | standard deviation, sum |
| primaries, three times (CPU, memory, network); primaries and secondaries (disk) | 1 | standard deviation |
| instances on nodes without memory for the failure of a peer | 1 | sum |
| primaries beyond the first with an exclusion tag on a node | 2 | sum |
| location tags that primary and secondary share; desired locations that the primary does not have | 1 | sum |
| primaries beyond the first with an exclusion tag in a location | 1 | sum |
"""

import numpy as np

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.document import Instance
from bulkdeploy.placement.model import Flags, Floats, Ints

RESERVED_SUM = 0.25
TAGS = 2.0


class GroupScore:
    """The cluster score of one node group, for an instance that is not placed yet.

    Attributes:
        nodes: positions of the group's nodes that are online and take instances; results refer to these.
    """

    def __init__(self, cluster: GanetiCluster, group: int) -> None:
        self._cluster = cluster
        online = [node.online and node.takes_instances for node in cluster.nodes]
        self.nodes: Ints = np.flatnonzero((cluster.group_of == group) & np.array(online, dtype=bool))
        nodes = [cluster.nodes[at] for at in self.nodes.tolist()]
        self._memory, self._disk, self._cpus, self._spindles = (
            np.array([max(getattr(node, name), 1) for node in nodes], dtype=np.float64)
            for name in ("total_memory", "total_disk", "total_cpus", "total_spindles")
        )
        self._has_disk = np.array([node.total_disk > 0 for node in nodes], dtype=bool)
        self._exclusive = cluster.exclusive[self.nodes]
        self._spindle_limit = np.maximum(cluster.spindle_limit[self.nodes], 1).astype(np.float64)
        self._locations = [cluster.locations[at] for at in self.nodes.tolist()]
        self._same_location = np.array(
            [[len(one & other) for other in self._locations] for one in self._locations]
            if any(self._locations)
            else np.zeros((1, 1)),
            dtype=np.float64,
        )

    def of_primaries(self, instance: Instance) -> Floats:
        """Return the score for each node as the primary of the instance, without a secondary."""
        return self._score(instance, np.arange(len(self.nodes)), pair=False)

    def of_pairs(self, instance: Instance, primaries: Ints) -> Floats:
        """Return the score for each of these primaries (row) with each node as the secondary (column)."""
        return self._score(instance, primaries, pair=True)

    def now(self) -> float:
        """Return the score of the group without the new instance."""
        cluster, nodes = self._cluster, self.nodes
        if not len(nodes):
            return 0.0
        reserve = cluster.reserve[nodes]
        reserved = reserve / self._memory
        spreads = [*self._columns(), (1, reserved)]
        held = cluster.vms_used[nodes] + cluster.secondaries[nodes]
        return float(
            sum(weight * np.std(values) for weight, values in spreads)
            + RESERVED_SUM * reserved.sum()
            + held[cluster.free_memory[nodes] <= reserve].sum()
            + self._cost_of_tags()
        )

    def _cost_of_tags(self) -> float:
        """Return the current cost of exclusion tags, locations and desired locations in the group."""
        tagged = [primaries[self.nodes] for primaries in self._cluster.tagged.values()]
        in_locations = [
            primaries[self._at(location)].sum()
            for primaries in tagged
            for location in frozenset[str]().union(*self._locations)
        ]
        return float(
            TAGS * sum(np.maximum(primaries - 1, 0).sum() for primaries in tagged)
            + sum(max(primaries - 1, 0) for primaries in in_locations)
            + self._cluster.location_cost[self.nodes].sum()
        )

    def _columns(self) -> list[tuple[int, Floats]]:
        """Return the values whose standard deviation counts, with their weights.

        The order is memory, disk, CPUs, spindles, primaries, instances.
        """
        cluster, nodes = self._cluster, self.nodes
        free_disk = np.where(
            self._exclusive, cluster.free_spindles[nodes] / self._spindles, cluster.free_disk[nodes] / self._disk
        )
        running = cluster.vms_used[nodes].astype(np.float64)
        return [
            (1, cluster.free_memory[nodes] / self._memory),
            (1, np.where(self._has_disk, free_disk, 1.0)),
            (1, cluster.vcpus_used[nodes] / self._cpus),
            (1, np.where(self._exclusive, 0.0, cluster.spindles_used[nodes] / self._spindle_limit)),
            (3, running),
            (1, running + cluster.secondaries[nodes]),
        ]

    def _added(self, instance: Instance) -> list[tuple[Floats, Floats]]:
        """Return, for each column, what the instance adds on its primary and on its secondary."""
        one, nothing = np.ones(len(self.nodes)), np.zeros(len(self.nodes))
        taken = np.where(self._exclusive, -instance.spindles / self._spindles, -instance.disk_space / self._disk)
        disk = np.where(self._has_disk, taken, 0.0)
        use = np.where(self._exclusive, 0.0, instance.spindle_use * instance.is_local / self._spindle_limit)
        runs = int(instance.uses_memory)
        return [
            (-runs * instance.memory / self._memory, nothing),
            (disk, disk),
            (runs * instance.vcpus / self._cpus, nothing),
            (use, use),
            (one, nothing),
            (one, one),
        ]

    def _score(self, instance: Instance, primaries: Ints, *, pair: bool) -> Floats:
        """Return the score for each primary, or for each pair of a primary and a secondary with ``pair``.

        A row is a primary and a column a secondary. The caller must ignore pairs of a node with itself.
        """
        nodes, nothing = len(self.nodes), np.zeros(len(self.nodes))
        memory = instance.memory if instance.uses_memory else 0
        reserve = self._cluster.reserve[self.nodes]

        def spread(weight: int, values: Floats, first: Floats, second: Floats) -> Floats:
            """Return the weighted deviation after adding ``first`` to the primary, ``second`` to the secondary."""
            at, of = first[primaries], values[primaries]
            total, squares = values.sum() + at, (values**2).sum() + at * (2 * of + at)
            if pair:
                total = total[:, np.newaxis] + second
                squares = squares[:, np.newaxis] + second * (2 * values + second)
            found: Floats = weight * np.sqrt(np.maximum(squares / nodes - (total / nodes) ** 2, 0))
            return found

        reserved = self._more_reserved(memory, primaries, reserve) if pair else np.zeros((1, nodes))
        kept = reserve / self._memory
        score = spread(1, kept, nothing, reserved / self._memory) + RESERVED_SUM * kept.sum() + self._cost_of_tags()
        for (weight, values), (first, second) in zip(self._columns(), self._added(instance), strict=True):
            score = score + spread(weight, values, first, second)
        score = score + self._failing(memory, primaries, reserve, reserved, pair=pair)
        ours = self._of_primary(instance)[primaries]
        if not pair:
            alone: Floats = score + ours
            return alone
        score = score + ours[:, np.newaxis] + RESERVED_SUM * reserved / self._memory
        if any(self._locations):
            score = score + self._same_location[primaries]
        found: Floats = score
        return found

    def _more_reserved(self, memory: int, primaries: Ints, reserve: Ints) -> Floats:
        """Return the additional memory that each secondary must reserve for the failure of each primary."""
        kept = self._cluster.peers[np.ix_(self.nodes[primaries], self.nodes)] + memory
        more: Floats = np.maximum(kept - reserve, 0).astype(np.float64)
        return more

    def _failing(self, memory: int, primaries: Ints, reserve: Ints, reserved: Floats, *, pair: bool) -> Floats:
        """Return the number of instances on nodes without enough free memory for the failure of another node."""
        held = self._cluster.vms_used[self.nodes] + self._cluster.secondaries[self.nodes]
        free = self._cluster.free_memory[self.nodes]
        fails = free <= reserve
        now = np.where(fails, held, 0)
        first = np.where(free - memory <= reserve, held + 1, 0) - now
        if not pair:
            alone: Floats = (now.sum() + first[primaries]).astype(np.float64)
            return alone
        second = np.where(free <= reserve + reserved, held + 1, 0) - now
        both: Floats = (now.sum() + first[primaries][:, np.newaxis] + second).astype(np.float64)
        return both

    def _of_primary(self, instance: Instance) -> Floats:
        """Return the cost of exclusion tags and desired locations if the instance runs on each node."""
        cluster = self._cluster
        cost = np.zeros(len(self.nodes))
        for tag in instance.tags:
            if tag.startswith(cluster.document.exclusion_prefixes):
                there = cluster.tagged[tag][self.nodes] if tag in cluster.tagged else np.zeros(len(self.nodes))
                cost += TAGS * (there > 0)
                cost += [
                    sum(bool(there[self._at(location)].any()) for location in locations)
                    for locations in self._locations
                ]
        desired = cluster.desired_locations(instance)
        if desired:
            cost += [len(desired - locations) for locations in self._locations]
        return cost

    def _at(self, location: str) -> Flags:
        return np.array([location in locations for locations in self._locations], dtype=bool)
