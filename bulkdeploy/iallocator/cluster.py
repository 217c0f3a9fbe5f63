"""A Ganeti cluster in the form that placement needs: nodes as hosts, node groups as clusters.

Nodes and groups are identified by their index in the order of their names. The usage changes as instances are
placed and removed. A snapshot is a copy of the state at its time.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bulkdeploy.iallocator.document import ALLOC_POLICIES, Document, Instance
from bulkdeploy.placement.model import ClusterColumns, Flags, HostColumns, Ints, PoolColumns, ZoneSnapshot


class GanetiCluster:
    """The nodes of a cluster, one array element per node, with amounts in MiB.

    Attributes:
        free_disk, free_spindles: the unused amounts of each node.
        exclusive, exclusive_groups: which nodes, and which groups, have exclusive storage.
        spindles_used, spindle_limit: for nodes that share spindles.
        secondaries: the number of instances that have each node as their secondary.
        peers: the memory of the instances with primary p (row) and secondary s (column).
        reserve: the memory that each node needs if the worst other node fails.
        vcpus_used: the CPUs that each node reserves, and those of its primaries.
        locations: the location tags of each node.
        location_cost: the cost of the locations of each node's primaries (``cluster_score``).
        tagged: for each tag, the number of each node's primaries with the tag.
        primaries: the instances that run on each node, by name.
        largest_memory: the most memory of any instance so far.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.names = sorted(document.nodes)
        self.position = {name: at for at, name in enumerate(self.names)}
        self.nodes = [document.nodes[name] for name in self.names]
        self.groups = sorted(document.groups.values(), key=lambda group: (group.name, group.uuid))
        group_at = {group.uuid: at for at, group in enumerate(self.groups)}
        count = len(self.nodes)
        self.group_of = _ints([group_at[node.group] for node in self.nodes])
        self.policy_rank = _ints([ALLOC_POLICIES.index(group.alloc_policy) for group in self.groups])
        self.free_disk = _ints([node.free_disk for node in self.nodes])
        self.free_spindles = _ints([node.free_spindles for node in self.nodes])
        self.exclusive = np.array([node.exclusive_storage for node in self.nodes], dtype=bool)
        self.exclusive_groups = np.array(
            [bool(self.exclusive[self.group_of == at].any()) for at in range(len(self.groups))], dtype=bool
        )
        self.spindle_limit = self._limit("spindle_ratio", [node.spindle_count for node in self.nodes])
        self.spindles_used = np.zeros(count, dtype=np.int64)
        self.secondaries = np.zeros(count, dtype=np.int64)
        self.peers = np.zeros((count, count), dtype=np.int64)
        self.reserve = np.zeros(count, dtype=np.int64)
        self.tagged: defaultdict[str, Ints] = defaultdict(lambda: np.zeros(count, dtype=np.int64))
        self.locations = [
            frozenset(tag for tag in node.tags if tag.startswith(document.location_prefixes)) for node in self.nodes
        ]
        self.location_cost = np.zeros(count, dtype=np.int64)
        self.primaries: list[dict[str, Instance]] = [{} for _ in self.nodes]
        self.largest_memory = 0
        self._clusters = self._cluster_columns()
        self._hosts = self._host_columns()
        self._secondary_vcpus = np.zeros(count, dtype=np.int64)
        for instance in document.instances.values():
            self._count(instance, self._positions(instance.nodes), 1)
            if instance.admin_state == "down":  # does not reduce the node's free memory, but may start at any time
                self._hosts.memory_used[self.position[instance.nodes[0]]] += instance.memory

    @property
    def free_memory(self) -> Ints:
        """The free memory of each node. Placement leaves 1 MiB of it unused."""
        return self._hosts.memory_limit + 1 - self._hosts.memory_used

    @property
    def vcpus_used(self) -> Ints:
        """The CPUs that each node reserves, and those of its primaries."""
        return self._hosts.cpu_used

    @property
    def vms_used(self) -> Ints:
        """The number of primaries of each node."""
        return self._hosts.vms_used

    def desired_locations(self, instance: Instance) -> frozenset[str]:
        """Return the location tags that the instance's primary node should have."""
        prefixes = self.document.desired_location_prefixes
        return frozenset(tag for tag in instance.tags if tag.startswith(prefixes))

    def closed_to(self, source: int) -> frozenset[int]:
        """Return the nodes to which the cluster's migration tags forbid a migration from ``source``.

        A node accepts the migration if, for each migration tag of the source, the node has the same tag or a tag to
        which migrations from it are allowed.
        """
        document = self.document
        prefixes = document.migration_prefixes
        if not prefixes:
            return frozenset()

        def tags(at: int) -> frozenset[str]:
            return frozenset(tag for tag in self.nodes[at].tags if tag.startswith(prefixes))

        def received(at: int) -> frozenset[str]:
            own = tags(at)
            return own | {first for first, second in document.allowed_migrations if second in own}

        needed = tags(source)
        return frozenset(at for at in range(len(self.nodes)) if not needed <= received(at))

    @property
    def free_vcpus(self) -> Ints:
        """The number of further virtual CPUs that the CPU ratio of each node's group allows."""
        return self._hosts.cpu_limit - self._hosts.cpu_used

    def snapshot(self, *, with_reserve: bool) -> ZoneSnapshot:
        """Return a snapshot for the placement of a primary.

        With ``with_reserve``, the memory that a node needs if another node fails counts as used.
        """
        hosts = self._hosts
        if with_reserve:
            hosts = replace(hosts, memory_used=hosts.memory_used + self.reserve)
        return self._snapshot(hosts)

    def snapshot_without(self, primary: int) -> ZoneSnapshot:
        """Return a snapshot for the placement of a secondary, as if the node ``primary`` had failed.

        Its instances then run on their secondary nodes. The CPUs of all secondaries count as used, so that
        secondaries are spread too.
        """
        hosts = self._hosts
        memory = hosts.memory_used + self.peers[primary]
        return self._snapshot(replace(hosts, memory_used=memory, cpu_used=hosts.cpu_used + self._secondary_vcpus))

    def place(self, instance: Instance, nodes: Sequence[int]) -> None:
        """Count an instance as placed on these nodes: the primary, then the secondary."""
        self._use(instance, nodes, 1)

    def take_away(self, instance: Instance, nodes: Sequence[int]) -> None:
        """No longer count an instance as placed on these nodes."""
        self._use(instance, nodes, -1)

    def nodes_of(self, instance: Instance) -> list[int]:
        """Return the indexes of the nodes on which the request says that the instance is placed."""
        return self._positions(instance.nodes)

    def _use(self, instance: Instance, nodes: Sequence[int], sign: int) -> None:
        self._count(instance, nodes, sign)
        if instance.uses_memory:
            self._hosts.memory_used[nodes[0]] += sign * instance.memory
        for node in nodes:
            self.free_disk[node] -= sign * instance.disk_space
            self.free_spindles[node] -= sign * instance.spindles

    def _count(self, instance: Instance, nodes: Sequence[int], sign: int) -> None:
        primary = nodes[0]
        self._hosts.cpu_used[primary] += sign * instance.vcpus * instance.uses_memory
        self._hosts.vms_used[primary] += sign
        for node in nodes if instance.is_local else ():
            self.spindles_used[node] += sign * instance.spindle_use
        self.location_cost[primary] += sign * len(self.desired_locations(instance) - self.locations[primary])
        self.location_cost[primary] += sign * sum(
            len(self.locations[primary] & self.locations[secondary]) for secondary in nodes[1:]
        )
        for tag in instance.tags:
            if tag.startswith(self.document.exclusion_prefixes):
                self.tagged[tag][primary] += sign
        if sign > 0:
            self.largest_memory = max(self.largest_memory, instance.memory)
            self.primaries[primary][instance.name] = instance
        else:
            del self.primaries[primary][instance.name]
        for secondary in nodes[1:]:
            self.secondaries[secondary] += sign
            self._secondary_vcpus[secondary] += sign * instance.vcpus
            self.peers[primary, secondary] += sign * instance.memory * instance.uses_memory
            self.reserve[secondary] = self.peers[:, secondary].max()

    def _positions(self, names: Sequence[str]) -> list[int]:
        return [self.position[name] for name in names]

    def _limit(self, ratio: str, amounts: Sequence[int]) -> Ints:
        ratios = (getattr(self.groups[at].policy, ratio) for at in self.group_of.tolist())
        return _ints([int(each * amount) for each, amount in zip(ratios, amounts, strict=True)])

    def _snapshot(self, hosts: HostColumns) -> ZoneSnapshot:
        return ZoneSnapshot(self._clusters, hosts, _NO_POOLS, (frozenset(),))

    def _cluster_columns(self) -> ClusterColumns:
        count = len(self.groups)
        zeros = np.zeros(count, dtype=np.int64)
        return ClusterColumns(
            id=np.arange(count, dtype=np.int64),
            pod_id=zeros,
            hypervisor=("",) * count,
            enabled=np.ones(count, dtype=bool),
            pod_enabled=np.ones(count, dtype=bool),
            policy=zeros,
            cpu_threshold=np.full(count, np.inf),
            memory_threshold=np.full(count, np.inf),
            owner_vms=zeros,
            all_vms=zeros,
        )

    def _host_columns(self) -> HostColumns:
        count = len(self.nodes)
        zeros = np.zeros(count, dtype=np.int64)
        no: Flags = np.zeros(count, dtype=bool)
        return HostColumns(
            id=np.arange(count, dtype=np.int64),
            cluster=self.group_of,
            up=np.array([node.online for node in self.nodes], dtype=bool),
            enabled=np.array([node.takes_instances for node in self.nodes], dtype=bool),
            cores=zeros,
            mhz=zeros,
            cpu_limit=self._limit("vcpu_ratio", [node.total_cpus for node in self.nodes]),
            cpu_used=_ints([node.reserved_cpus for node in self.nodes]),
            memory_limit=_ints([node.total_memory - 1 for node in self.nodes]),
            memory_used=_ints([node.total_memory - node.free_memory for node in self.nodes]),
            vms_limit=zeros,
            vms_used=zeros.copy(),
            owner_vms=zeros,
            tag_set=zeros,
            foreign=no,
            own=no,
        )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


_NONE = np.zeros(0, dtype=np.int64)
_NO_POOLS = PoolColumns(_NONE, _NONE, _NONE, np.zeros(0, dtype=bool), _NONE, _NONE, _NONE, ())
"""No storage pools, because the rules of this package check the disk space of nodes."""
