"""The check whether any one host of a zone may be lost (N+1).

The VMs of the lost host must find capacity on the other hosts of its cluster. Only their sizes and host tags are
compared, and only their own cluster is used, because their volumes may not be accessible from another cluster. They
are started like other VMs, so the thresholds of their cluster apply. Other accounts' VMs on a host, affinity
groups, dedications and storage are ignored.

An evacuation plans the VMs of a lost host in the same orders (``restart_orders``) and with the same planner
(``packed_restart``). Therefore VMs that fit in this check fit in an evacuation, unless one of the other rules
excludes a host.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from bulkdeploy.placement.batch import PACKED, batch_orders, plan_batch
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.model import COUNT_DISPERSING, HostColumns, Ints, PlacementRequest, Plan, ZoneSnapshot


@dataclass(frozen=True, slots=True)
class HeldVms:
    """The VMs on hosts: each entry is ``count`` VMs of one kind on one host (by id).

    ``kinds`` has a request for one VM of each kind.
    """

    kinds: tuple[PlacementRequest, ...]
    host_id: Ints
    kind: Ints
    count: Ints

    def plus(self, request: PlacementRequest, made: Plan) -> "HeldVms":
        """Return these VMs together with the VMs of a plan."""
        host_ids, vms = np.unique(made.host_ids, return_counts=True)
        return HeldVms(
            (*self.kinds, request),
            np.concatenate((self.host_id, host_ids)),
            np.concatenate((self.kind, np.full(len(host_ids), len(self.kinds), dtype=np.int64))),
            np.concatenate((self.count, vms)),
        )


def host_not_to_lose(snapshot: ZoneSnapshot, held: HeldVms, catalog: PlacementCatalog) -> int | None:
    """Return the id of a host whose VMs would not all fit elsewhere if it failed.

    Returns None if any single host may fail.
    """
    hosts = snapshot.hosts
    vms = np.zeros((len(hosts.id), len(held.kinds)), dtype=np.int64)
    order = np.argsort(hosts.id, kind="stable")
    found = np.isin(held.host_id, hosts.id)
    at = order[np.searchsorted(hosts.id, held.host_id[found], sorter=order)]
    np.add.at(vms, (at, held.kind[found]), held.count[found])
    for in_cluster in _by_cluster(hosts.cluster):
        holding = in_cluster[hosts.up[in_cluster] & vms[in_cluster].any(axis=1)]
        if not len(holding):
            continue
        alone = _cluster_alone(snapshot, in_cluster)
        position = {host: number for number, host in enumerate(in_cluster.tolist())}
        for host in _unlike(hosts, vms, holding):
            if _lacks_capacity(alone, position[host], held.kinds, vms[host], catalog):
                return int(hosts.id[host])
    return None


def _by_cluster(cluster: Ints) -> Iterator[Ints]:
    """Yield, for each cluster with hosts, the positions of its hosts."""
    order = np.argsort(cluster, kind="stable")
    return iter(np.split(order, np.flatnonzero(np.diff(cluster[order])) + 1)) if len(order) else iter(())


def _unlike(hosts: HostColumns, vms: Ints, at: Ints) -> Iterator[int]:
    """Yield the positions of hosts, those with most VMs first. Of several equal hosts only one is yielded."""
    seen = set()
    columns = [getattr(hosts, field.name)[at].tolist() for field in fields(hosts) if field.name != "id"]
    alike = list(zip(*columns, map(tuple, vms[at].tolist()), strict=True))
    for number in np.argsort(-vms[at].sum(axis=1), kind="stable").tolist():
        if alike[number] not in seen:
            seen.add(alike[number])
            yield int(at[number])


def _cluster_alone(snapshot: ZoneSnapshot, at: Ints) -> ZoneSnapshot:
    """Return a zone that consists of the cluster of these hosts, without storage and dedications."""
    clusters, hosts, pools = snapshot.clusters, snapshot.hosts, snapshot.pools
    cluster = int(hosts.cluster[at[0]])
    nowhere = np.zeros(len(at), dtype=bool)
    return replace(
        snapshot,
        clusters=replace(
            clusters,
            **{field.name: getattr(clusters, field.name)[cluster : cluster + 1] for field in fields(clusters)},
        ),
        hosts=replace(
            hosts,
            **{field.name: getattr(hosts, field.name)[at] for field in fields(hosts)}
            | {"cluster": np.zeros(len(at), dtype=np.int64), "foreign": nowhere, "own": nowhere},
        ),
        pools=replace(pools, **{field.name: getattr(pools, field.name)[:0] for field in fields(pools)}),
    )


def _lacks_capacity(
    alone: ZoneSnapshot, lost: int, kinds: Sequence[PlacementRequest], vms: Ints, catalog: PlacementCatalog
) -> bool:
    counted = sorted(np.flatnonzero(vms).tolist(), key=lambda kind: _size(kinds[kind]))
    requests = [_started_again(kinds[kind], int(vms[kind])) for kind in counted]
    return plan_batch(_without_host(alone, lost), requests, catalog).refused > 0


def _without_host(snapshot: ZoneSnapshot, at: int) -> ZoneSnapshot:
    """Return the zone with the host at this position down."""
    up = snapshot.hosts.up.copy()
    up[at] = False
    return replace(snapshot, hosts=replace(snapshot.hosts, up=up))


def without_host(snapshot: ZoneSnapshot, host_id: int) -> ZoneSnapshot:
    """Return the zone with one host down. The host's VMs still count as their owners' VMs in the cluster."""
    return _without_host(snapshot, int(np.flatnonzero(snapshot.hosts.id == host_id)[0]))


def restart_orders(
    snapshot: ZoneSnapshot, host_id: int, vms: Sequence[PlacementRequest]
) -> Iterator[tuple[int, ...]]:
    """Yield the orders in which to plan the VMs of a lost host, as positions in ``vms``.

    These are the orders that ``host_not_to_lose`` tries. VMs of one size follow each other.

    Args:
        snapshot: the zone. The state of the lost host does not matter.
        host_id: the lost host.
        vms: a request for each VM.
    """
    (at,) = np.flatnonzero(snapshot.hosts.id == host_id)
    in_cluster = np.flatnonzero(snapshot.hosts.cluster == snapshot.hosts.cluster[at])
    rest = _without_host(_cluster_alone(snapshot, in_cluster), int(np.searchsorted(in_cluster, at)))
    by_size = sorted(range(len(vms)), key=lambda vm: _size(vms[vm]))
    sizes = [_started_again(vms[vm], 1) for vm in by_size]
    for order in batch_orders(rest, sizes):
        yield tuple(by_size[turn] for turn in order)


def packed_restart(request: PlacementRequest, cluster_id: int) -> PlacementRequest:
    """Return the request of a VM of a lost host as ``host_not_to_lose`` plans it: packed into its own cluster."""
    return replace(request, cluster_id=cluster_id, planner=COUNT_DISPERSING, host_algorithm=PACKED)


def _size(vm: PlacementRequest) -> tuple[object, ...]:
    """Return a key that sorts VMs by size. It is equal only for VMs that this module plans in the same way."""
    cpu_mhz = vm.cpu_number * vm.cpu_mhz
    return (-vm.memory_mib, -cpu_mhz, vm.cpu_number, vm.cpu_mhz, vm.hypervisor, sorted(vm.host_tags))


def _started_again(kind: PlacementRequest, count: int) -> PlacementRequest:
    return PlacementRequest(
        count=count,
        cpu_number=kind.cpu_number,
        cpu_mhz=kind.cpu_mhz,
        memory_mib=kind.memory_mib,
        hypervisor=kind.hypervisor,
        host_tags=kind.host_tags,
        planner=COUNT_DISPERSING,
        host_algorithm=PACKED,
    )
