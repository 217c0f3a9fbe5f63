"""Where the VMs go that an inventory says run already: evenly over the hosts it names, as far as they fit.

This is not the planner: a file states facts, so tags and thresholds do not move a VM off a host
that is named for it. What is never bent is the ledger: no host and no pool is filled above its limit,
and no host gets two VMs of a strict anti-affinity group.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from bulkdeploy.store.inventory.inventory_loads import LoadToPlace, PlacedLoad
from bulkdeploy.store.inventory.inventory_rooms import HostRoom, PoolRoom
from bulkdeploy.store.inventory.inventory_staging import InventoryConflict


class LoadPlacer:
    """Places load after load into what room is left; the rooms shrink as it goes.

    Args:
        hosts: room by host id.
        pools: rooms of the pools that are Up.
        apart: hosts that hold a member, by strict anti-affinity group.
    """

    def __init__(
        self, hosts: Mapping[int, HostRoom], pools: Sequence[PoolRoom], apart: Mapping[int, set[int]]
    ) -> None:
        self._hosts, self._apart = hosts, apart
        self._by_cluster: dict[int | None, list[PoolRoom]] = {}
        self._by_host: dict[int, list[PoolRoom]] = {}
        for pool in pools:
            if pool.host_id is None:
                self._by_cluster.setdefault(pool.cluster_id, []).append(pool)
            else:
                self._by_host.setdefault(pool.host_id, []).append(pool)

    def place(self, wanted: LoadToPlace) -> PlacedLoad:
        """A host and a pool for each fresh VM: the hosts in turn, on each the pool with most room.

        Raises:
            InventoryConflict: not all of them fit; says how many do.
        """
        hosts = self._usable_hosts(wanted)
        turns = deque(hosts)
        turns.rotate(-(wanted.already % len(hosts)) if hosts else 0)
        placed = PlacedLoad(wanted, [], [])
        while turns and len(placed.host_ids) < wanted.fresh:
            host = turns.popleft()
            pool = self._roomiest_pool(wanted, host)
            if pool is None or not self._fits(wanted, host):
                continue  # room only shrinks: a host that is full now is full for the rest of the load
            self._take(wanted, host, pool)
            placed.host_ids.append(host.id)
            placed.pool_ids.append(pool.id)
            turns.append(host)
        if len(placed.host_ids) < wanted.fresh:
            rule = (
                f"count: {len(placed.host_ids)} of {wanted.fresh} VMs fit on the {len(hosts)} host(s) that they"
                " may run on, and into the storage pools there"
            )
            raise InventoryConflict(wanted.load.where, rule)
        return placed

    def _usable_hosts(self, wanted: LoadToPlace) -> list[HostRoom]:
        """The hosts that the file names, as they are; else those of the cluster that are up and carry the tags."""
        hosts = [self._hosts[host_id] for host_id in wanted.host_ids]
        if wanted.chosen:
            return hosts
        return [host for host in hosts if host.usable and wanted.host_tags <= host.tags]

    def _fits(self, wanted: LoadToPlace, host: HostRoom) -> bool:
        apart = any(host.id in self._apart.get(group, ()) for group in wanted.affinity_group_ids)
        return (
            not apart
            and host.vms >= 1
            and host.cores >= wanted.cpu_number
            and host.core_mhz >= wanted.cpu_mhz
            and host.cpu_mhz >= wanted.cpu_number * wanted.cpu_mhz
            and host.memory_mib >= wanted.memory_mib
        )

    def _roomiest_pool(self, wanted: LoadToPlace, host: HostRoom) -> PoolRoom | None:
        """Of the host's own pools, or of the cluster's and else the zone's, one that holds the disk."""
        if wanted.local_storage:
            choices = [self._by_host.get(host.id, [])]
        else:
            choices = [self._by_cluster.get(host.cluster_id, []), self._by_cluster.get(None, [])]
        for pools in choices:
            fitting = [
                pool
                for pool in pools
                if pool.free_bytes >= wanted.disk_bytes
                and wanted.storage_tags <= pool.tags
                and pool.hypervisor in (None, wanted.hypervisor)
            ]
            if fitting:
                return max(fitting, key=lambda pool: pool.free_bytes)
        return None

    def _take(self, wanted: LoadToPlace, host: HostRoom, pool: PoolRoom) -> None:
        host.vms -= 1
        host.cpu_mhz -= wanted.cpu_number * wanted.cpu_mhz
        host.memory_mib -= wanted.memory_mib
        pool.free_bytes -= wanted.disk_bytes
        for group in wanted.affinity_group_ids:
            if group in self._apart:
                self._apart[group].add(host.id)
