"""One zone as columns for placement: hosts, clusters, pools, dedication, and the owner's VMs.

The zone is read inside the transaction that claims. Data that has not changed since the process's last plan is not
read again (``store.database.column_cache``). ``storage.overprovisioning.factor`` and the disable thresholds are
applied here, so that placement gets limits and needs no settings.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from sqlalchemy import Connection, text

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.placement.model import (
    ClusterColumns,
    Flags,
    Floats,
    HostColumns,
    Ints,
    PoolColumns,
    ZoneSnapshot,
    total,
)
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.database.copying import read_columns
from bulkdeploy.store.ledger.zone_numbers import pools_of, positions, read_numbers


def read_snapshot(
    connection: Connection,
    zone_id: int,
    owner: Owner,
    configuration: Configuration,
    *,
    with_tags: bool,
    with_local_storage: bool,
    with_owner_hosts: bool,
) -> ZoneSnapshot:
    """Read the data of a zone that placement needs for a request of ``owner``.

    The flags omit parts that the request does not need.
    """
    hosts, of_pools = read_numbers(connection, zone_id)
    clusters, position = _read_clusters(connection, zone_id, owner, configuration, hosts)
    host_tags, tag_sets = _read_tags(connection, "hosts", zone_id, hosts["id"], (), enabled=with_tags)
    foreign, own = _read_dedication(connection, zone_id, owner, hosts["id"], hosts["cluster_id"], hosts["pod_id"])
    there = pools_of(of_pools, clusters.id, hosts["id"], with_local=with_local_storage)
    pools, tag_sets = _pool_columns(connection, zone_id, configuration, tag_sets, *there)
    return ZoneSnapshot(
        clusters=clusters,
        hosts=HostColumns(
            id=hosts["id"],
            cluster=position,
            up=hosts["up"].astype(bool),
            enabled=hosts["enabled"].astype(bool),
            cores=hosts["cores"],
            mhz=hosts["mhz"],
            cpu_limit=hosts["cpu_limit"],
            cpu_used=hosts["cpu_used"],
            memory_limit=hosts["memory_limit"],
            memory_used=hosts["memory_used"],
            vms_limit=hosts["vms_limit"],
            vms_used=hosts["vms_used"],
            owner_vms=_owner_vms_by_host(connection, zone_id, owner, hosts["id"], enabled=with_owner_hosts),
            tag_set=host_tags,
            foreign=foreign,
            own=own,
        ),
        pools=pools,
        tag_sets=tag_sets,
    )


def seen_by_another(
    connection: Connection, zone: ZoneSnapshot, zone_id: int, owner: Owner, *, with_owner_hosts: bool
) -> ZoneSnapshot:
    """Return a copy of a zone for a request of another owner, with the same hosts, claims and pools.

    Only the dedication and the counts of the owner's VMs are read again.
    """
    clusters, of_host = zone.clusters, zone.hosts.cluster
    foreign, own = _read_dedication(
        connection, zone_id, owner, zone.hosts.id, clusters.id[of_host], clusters.pod_id[of_host]
    )
    counted, _ = read_columns(connection, _OWNER_VMS, {"account": owner.account_id}, ("cluster_id", "vms"))
    owner_vms = np.zeros(len(clusters.id), dtype=np.int64)
    at = positions(clusters.id, counted["cluster_id"])
    owner_vms[at[at >= 0]] = counted["vms"][at >= 0]
    by_host = _owner_vms_by_host(connection, zone_id, owner, zone.hosts.id, enabled=with_owner_hosts)
    seen = replace(
        zone,
        clusters=replace(clusters, owner_vms=owner_vms),
        hosts=replace(zone.hosts, foreign=foreign, own=own, owner_vms=by_host),
    )
    if np.array_equal(foreign, zone.hosts.foreign) and np.array_equal(own, zone.hosts.own):
        seen.lasting.update(zone.lasting)
    return seen


_OWNER_VMS = "SELECT cluster_id, vms::bigint FROM account_clusters WHERE account_id = %(account)s"
_CLUSTERS = """
    SELECT c.id, c.pod_id, (c.allocation_state = 'Enabled' AND c.managed_state = 'Managed')::int::bigint,
    (p.allocation_state = 'Enabled')::int::bigint, coalesce(a.vms, 0)::bigint,
    greatest(array_position(ARRAY['preferred', 'last_resort', 'unallocable'], c.alloc_policy),
      array_position(ARRAY['preferred', 'last_resort', 'unallocable'], p.alloc_policy))::bigint - 1, c.hypervisor
    FROM clusters c JOIN pods p ON p.id = c.pod_id
    LEFT JOIN account_clusters a ON a.cluster_id = c.id AND a.account_id = %(account)s
    WHERE c.zone_id = %(zone)s AND c.removed IS NULL ORDER BY c.id
"""


def _read_clusters(
    connection: Connection, zone_id: int, owner: Owner, configuration: Configuration, hosts: Mapping[str, Ints]
) -> tuple[ClusterColumns, Ints]:
    """Return the columns of the zone's clusters, and for each host the position of its cluster in these columns."""
    names = ("id", "pod_id", "enabled", "pod_enabled", "owner_vms", "policy")
    wanted = {"zone": zone_id, "account": owner.account_id}
    rows, texts = read_columns(connection, _CLUSTERS, wanted, names, texts=("hypervisor",))
    ids = rows["id"]
    position = np.searchsorted(ids, hosts["cluster_id"]).astype(np.int64)
    columns = ClusterColumns(
        id=ids,
        pod_id=rows["pod_id"],
        hypervisor=tuple(texts["hypervisor"]),
        enabled=rows["enabled"].astype(bool),
        pod_enabled=rows["pod_enabled"].astype(bool),
        policy=rows["policy"],
        cpu_threshold=_thresholds(configuration, "cpu", ids),
        memory_threshold=_thresholds(configuration, "memory", ids),
        owner_vms=rows["owner_vms"],
        all_vms=total(position, hosts["vms_used"], len(ids)),
    )
    return columns, position


def _thresholds(configuration: Configuration, resource: str, ids: Ints) -> Floats:
    """Return, for each cluster, the used share above which it gets no new VM, or infinity if thresholds are off."""
    if not configuration.flag("cluster.threshold.enabled"):
        return np.full(len(ids), np.inf)
    name = f"cluster.{resource}.allocated.capacity.disablethreshold"
    shares = np.full(len(ids), configuration.decimal(name))
    for cluster_id, value in configuration.scoped(name, Scope.CLUSTER).items():
        shares[ids == cluster_id] = float(value)
    return shares


def _read_tags(
    connection: Connection,
    table: str,
    zone_id: int,
    ids: Ints,
    known: tuple[frozenset[str], ...],
    *,
    enabled: bool,
) -> tuple[Ints, tuple[frozenset[str], ...]]:
    """Return the tag sets, and for each id the position of its tag set. Position 0 is the empty set."""
    tag_sets = list(known) or [frozenset[str]()]
    result = np.zeros(len(ids), dtype=np.int64)
    if not enabled:
        return result, tuple(tag_sets)
    rows = connection.execute(
        text(
            f"SELECT tags, array_agg(id) AS ids FROM {table} WHERE zone_id = :zone"  # noqa: S608 - our own names
            " AND removed IS NULL AND tags <> '{}' GROUP BY tags ORDER BY tags"
        ),
        {"zone": zone_id},
    )
    for row in rows:
        tag_sets.append(frozenset(row.tags))
        members = np.array(row.ids, dtype=np.int64)
        result[np.isin(ids, members)] = len(tag_sets) - 1
    return result, tuple(tag_sets)


def _read_dedication(
    connection: Connection, zone_id: int, owner: Owner, host_ids: Ints, cluster_ids: Ints, pod_ids: Ints
) -> tuple[Flags, Flags]:
    """Return which hosts are dedicated to others, and which to the owner's account or domain.

    ``cluster_ids`` and ``pod_ids`` have one entry per host.
    """
    foreign = np.zeros(len(host_ids), dtype=bool)
    own = np.zeros(len(host_ids), dtype=bool)
    rows = connection.execute(
        text(
            "SELECT r.zone_id, r.pod_id, r.cluster_id, r.host_id, r.account_id, d.lineage"
            " FROM dedicated_resources r JOIN domains d ON d.id = r.domain_id"
        )
    )
    for row in rows:
        if row.host_id is not None:
            mask = host_ids == row.host_id
        elif row.cluster_id is not None:
            mask = cluster_ids == row.cluster_id
        elif row.pod_id is not None:
            mask = pod_ids == row.pod_id
        else:
            mask = np.full(len(own), row.zone_id == zone_id)
        mine = row.account_id == owner.account_id or (
            row.account_id is None and owner.lineage.startswith(row.lineage)
        )
        (own if mine else foreign)[mask] = True
    return foreign, own


def _owner_vms_by_host(
    connection: Connection, zone_id: int, owner: Owner, host_ids: Ints, *, enabled: bool
) -> Ints:
    """Count the owner's VMs on each host. Returns zeros if the host algorithm does not need the counts."""
    counts = np.zeros(len(host_ids), dtype=np.int64)
    if not enabled:
        return counts
    query = """
        SELECT host_id, count(*) FROM virtual_machines WHERE account_id = %(account)s AND zone_id = %(zone)s
        AND removed IS NULL AND host_id IS NOT NULL GROUP BY host_id
    """
    rows, _ = read_columns(connection, query, {"account": owner.account_id, "zone": zone_id}, ("host_id", "vms"))
    present = np.isin(rows["host_id"], host_ids)
    counts[np.searchsorted(host_ids, rows["host_id"][present])] = rows["vms"][present]
    return counts


def _pool_columns(
    connection: Connection,
    zone_id: int,
    configuration: Configuration,
    tag_sets: tuple[frozenset[str], ...],
    rows: Mapping[str, Ints],
    cluster: Ints,
    host: Ints,
) -> tuple[PoolColumns, tuple[frozenset[str], ...]]:
    """Return the columns of pools, and the tag sets extended by those of the pools.

    The limit of a pool is its size times over-provisioning (shared pools only) times its threshold.
    """
    ids, any_special = rows["id"], bool(rows["special"].any())
    pool_tags, tag_sets = _read_tags(connection, "storage_pools", zone_id, ids, tag_sets, enabled=any_special)
    restricted = _read_restricted_pools(connection, zone_id) if any_special else {}
    return (
        PoolColumns(
            id=ids,
            cluster=cluster,
            host=host,
            up=rows["up"].astype(bool),
            limit=pool_limits(configuration, ids, rows["capacity"], rows["local"]),
            allocated=rows["allocated"],
            tag_set=pool_tags,
            hypervisor=tuple(restricted.get(pool_id, "") for pool_id in ids.tolist())
            if restricted
            else ("",) * len(ids),
        ),
        tag_sets,
    )


def _read_restricted_pools(connection: Connection, zone_id: int) -> dict[int, str]:
    """Return the hypervisor of each zone-wide pool that only one hypervisor can use, by the pool's id."""
    rows = connection.execute(
        text(
            "SELECT id, hypervisor FROM storage_pools"
            " WHERE zone_id = :zone AND removed IS NULL AND hypervisor IS NOT NULL AND scope = 'ZONE'"
        ),
        {"zone": zone_id},
    )
    return {row.id: row.hypervisor for row in rows}


def pool_limits(configuration: Configuration, ids: Ints, capacity: Ints, local: Ints) -> Ints:
    """Return the bytes that may be claimed in each pool: size x over-provisioning (shared only) x threshold."""
    factor = _per_pool(configuration, "storage.overprovisioning.factor", ids)
    share = _per_pool(configuration, "pool.storage.allocated.capacity.disablethreshold", ids)
    factor[local.astype(bool)] = 1.0
    limits: Ints = np.floor(capacity * factor * share).astype(np.int64)
    return limits


def _per_pool(configuration: Configuration, name: str, ids: Ints) -> Floats:
    values = np.full(len(ids), configuration.decimal(name))
    for pool_id, value in configuration.scoped(name, Scope.STORAGE_POOL).items():
        values[ids == pool_id] = float(value)
    return values
