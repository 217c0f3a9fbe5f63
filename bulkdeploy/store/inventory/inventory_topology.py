"""Writing the places of an inventory: the zone, pods, clusters, hosts with their capacity, and pools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal

from sqlalchemy import Connection, select

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.inventory import (
    OTHER_VMS_LIMIT,
    VMS_LIMIT,
    Cluster,
    Dedication,
    Host,
    Inventory,
    Pod,
    StoragePool,
    Zone,
)
from bulkdeploy.domain.inventory_owners import Where
from bulkdeploy.store.inventory.inventory_groups import DedicatedPlace
from bulkdeploy.store.inventory.inventory_staging import Changes, FixedColumn, InventoryConflict, Row, Upsert, merge
from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.topology import clusters, hosts, pods, storage_pools, zones

ZONES = Upsert(zones, ("name",), fixed=("network_type",))
PODS = Upsert(pods, ("zone_id", "name"))
CLUSTERS = Upsert(clusters, ("zone_id", "pod_id", "name"), fixed=("hypervisor",))
HOSTS = Upsert(hosts, ("zone_id", "name"), fixed=("cluster_id",))
POOLS = Upsert(storage_pools, ("zone_id", "name"), fixed=("scope", "cluster_id", "host_id"))


@dataclass(slots=True)
class Places:
    """Internal ids of what an inventory describes. Clusters by pod and name, the others by name."""

    zone: int
    pods: dict[str, int] = field(default_factory=dict)
    clusters: dict[tuple[str, str], int] = field(default_factory=dict)
    hosts: dict[str, int] = field(default_factory=dict)
    pools: dict[str, int] = field(default_factory=dict)


def hosts_of(inventory: Inventory) -> Iterator[tuple[Pod, Cluster, Host]]:
    """Every host with its cluster and pod, in the order of the inventory."""
    for pod in inventory.pods:
        for cluster in pod.clusters:
            for host in cluster.hosts:
                yield pod, cluster, host


def zone_ids(connection: Connection) -> dict[str, int]:
    """The zones that are described, by name."""
    rows = connection.execute(
        select(zones.c.name, zones.c.id).where(zones.c.removed.is_(None)).order_by(zones.c.id)
    )
    return {row.name: row.id for row in rows}


def write_zone(connection: Connection, zone: Zone, domain_ids: Mapping[str, int], changes: Changes) -> int:
    """The zone; its id.

    Raises:
        InventoryConflict: it exists with another network type.
    """
    row = {
        "name": zone.name,
        "description": zone.description,
        "network_type": zone.network_type,
        "security_groups_enabled": zone.security_groups_enabled,
        "local_storage_enabled": zone.local_storage_enabled,
        "allocation_state": zone.allocation_state,
        "dns1": zone.dns1,
        "dns2": zone.dns2,
        "internal_dns1": zone.internal_dns1,
        "internal_dns2": zone.internal_dns2,
        "guest_cidr": zone.guest_cidr,
        "network_domain": zone.network_domain,
        "domain_id": None if zone.domain is None else domain_ids[zone.domain],
        "sort_key": zone.sort_key,
    }
    return _write(connection, ZONES, [row], [zone.where], changes, "zones")[0]


def write_places(connection: Connection, inventory: Inventory, zone_id: int, changes: Changes) -> Places:
    """Pods, clusters and hosts.

    Raises:
        InventoryConflict: a cluster would change its hypervisor, or a host its cluster.
    """
    places = Places(zone_id)
    pod_rows = [_pod_row(pod, zone_id) for pod in inventory.pods]
    found = _write(connection, PODS, pod_rows, [pod.where for pod in inventory.pods], changes, "pods")
    places.pods = dict(zip((pod.name for pod in inventory.pods), found, strict=True))
    described = [(pod, cluster) for pod in inventory.pods for cluster in pod.clusters]
    cluster_rows = [_cluster_row(cluster, zone_id, places.pods[pod.name]) for pod, cluster in described]
    wheres = [cluster.where for _, cluster in described]
    found = _write(connection, CLUSTERS, cluster_rows, wheres, changes, "clusters")
    names = ((pod.name, cluster.name) for pod, cluster in described)
    places.clusters = dict(zip(names, found, strict=True))
    every_host = list(hosts_of(inventory))
    host_rows = [_host_row(pod, cluster, host, places) for pod, cluster, host in every_host]
    wheres = [host.where for _, _, host in every_host]
    found = _write(connection, HOSTS, host_rows, wheres, changes, "hosts")
    places.hosts = dict(zip((host.name for _, _, host in every_host), found, strict=True))
    return places


def _write(
    connection: Connection,
    upsert: Upsert,
    rows: Sequence[Row],
    wheres: Sequence[Where],
    changes: Changes,
    noun: str,
) -> list[int]:
    try:
        return upsert.write(connection, rows, changes, noun)
    except FixedColumn as fixed:
        rule = f"it is stored with another {fixed.column.removesuffix('_id')}, which never changes"
        raise InventoryConflict(wheres[fixed.position], f"{noun} {rows[fixed.position]['name']}: {rule}") from fixed


def _pod_row(pod: Pod, zone_id: int) -> Row:
    return {
        "zone_id": zone_id,
        "name": pod.name,
        "gateway": pod.gateway,
        "netmask": pod.netmask,
        "start_ip": pod.start_ip,
        "end_ip": pod.end_ip,
        "allocation_state": pod.allocation_state,
    }


def _cluster_row(cluster: Cluster, zone_id: int, pod_id: int) -> Row:
    return {
        "zone_id": zone_id,
        "pod_id": pod_id,
        "name": cluster.name,
        "hypervisor": cluster.hypervisor,
        "allocation_state": cluster.allocation_state,
        "cpu_overcommit": cluster.cpu_overcommit,
        "memory_overcommit": cluster.memory_overcommit,
    }


def _host_row(pod: Pod, cluster: Cluster, host: Host, places: Places) -> Row:
    return {
        "zone_id": places.zone,
        "pod_id": places.pods[pod.name],
        "cluster_id": places.clusters[pod.name, cluster.name],
        "name": host.name,
        "ip_address": host.ip_address,
        "hypervisor": cluster.hypervisor,
        "hypervisor_version": host.hypervisor_version,
        "state": host.state,
        "resource_state": host.resource_state,
        "cpu_sockets": host.cpu_sockets,
        "cpu_cores": host.cpu_cores,
        "cpu_mhz": host.cpu_mhz,
        "memory_mib": host.memory_mib,
        "tags": host.tags,
        "details": host.details,
    }


def write_capacity(connection: Connection, inventory: Inventory, places: Places, changes: Changes) -> None:
    """What each host can hold: its hardware times the cluster's over-commit, rounded down, and its VMs."""
    rows = [
        {
            "host_id": places.hosts[host.name],
            "cpu_mhz_limit": _times(host.cpu_cores * host.cpu_mhz, cluster.cpu_overcommit),
            "memory_mib_limit": _times(host.memory_mib, cluster.memory_overcommit),
            "vms_limit": vms_limit(cluster, host),
        }
        for _, cluster, host in hosts_of(inventory)
    ]
    merge(connection, host_capacity, rows, changes, "host capacities")


def _times(amount: int, factor: Decimal) -> int:
    return int((amount * factor).to_integral_value(ROUND_FLOOR))


def vms_limit(cluster: Cluster, host: Host) -> int:
    """The host's own limit of VMs, or its hypervisor's."""
    return VMS_LIMIT.get(cluster.hypervisor, OTHER_VMS_LIMIT) if host.vms_limit is None else host.vms_limit


def write_pools(connection: Connection, inventory: Inventory, places: Places, changes: Changes) -> None:
    """Primary storage pools of the zone, of clusters and of hosts, into ``places.pools`` too.

    Raises:
        InventoryConflict: a pool would change its scope or place.
    """
    every_pool = list(_pools_of(inventory, places))
    rows = [
        {
            "zone_id": places.zone,
            "name": pool.name,
            "scope": pool.scope,
            "pod_id": pod_id,
            "cluster_id": cluster_id,
            "host_id": host_id,
            "pool_type": pool.pool_type,
            "hypervisor": pool.hypervisor,
            "state": pool.state,
            "ip_address": pool.ip_address,
            "path": pool.path,
            "tags": pool.tags,
            "capacity_bytes": pool.capacity_bytes,
        }
        for pool, pod_id, cluster_id, host_id in every_pool
    ]
    wheres = [pool.where for pool, *_ in every_pool]
    found = _write(connection, POOLS, rows, wheres, changes, "storage pools")
    places.pools = dict(zip((pool.name for pool, *_ in every_pool), found, strict=True))


def _pools_of(
    inventory: Inventory, places: Places
) -> Iterator[tuple[StoragePool, int | None, int | None, int | None]]:
    """Each pool with the ids of its pod, cluster and host, as far as it is in one."""
    for pool in inventory.storage_pools:
        yield pool, None, None, None
    for pod in inventory.pods:
        for cluster in pod.clusters:
            above = places.pods[pod.name], places.clusters[pod.name, cluster.name]
            for pool in cluster.storage_pools:
                yield pool, *above, None
            for host in cluster.hosts:
                for pool in host.storage_pools:
                    yield pool, *above, places.hosts[host.name]


def settings_of(inventory: Inventory, places: Places) -> list[tuple[Scope, int, Mapping[str, str]]]:
    """All overrides of settings that the inventory gives, with scope and id."""
    given = [(Scope.GLOBAL, 0, inventory.configuration)]
    given += [
        (Scope.CLUSTER, places.clusters[pod.name, cluster.name], cluster.configuration)
        for pod in inventory.pods
        for cluster in pod.clusters
    ]
    given += [
        (Scope.STORAGE_POOL, places.pools[pool.name], pool.configuration)
        for pool, *_ in _pools_of(inventory, places)
    ]
    return given


def dedicated_places(inventory: Inventory, places: Places) -> list[DedicatedPlace]:
    """The zone, pods, clusters and hosts that somebody has alone."""
    candidates: list[tuple[str, int, Dedication | None]] = [
        ("zone_id", places.zone, inventory.zone.dedicated_to),
        *(("pod_id", places.pods[pod.name], pod.dedicated_to) for pod in inventory.pods),
        *(
            ("cluster_id", places.clusters[pod.name, cluster.name], cluster.dedicated_to)
            for pod in inventory.pods
            for cluster in pod.clusters
        ),
        *(("host_id", places.hosts[host.name], host.dedicated_to) for _, _, host in hosts_of(inventory)),
    ]
    return [DedicatedPlace(column, place, holder) for column, place, holder in candidates if holder is not None]
