"""The numbers of a zone's hosts and pools, cached by ``store.database.column_cache``."""

from collections.abc import Mapping

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.placement.model import Ints
from bulkdeploy.store.database.column_cache import CachedTable, column_cache

HOSTS = CachedTable(
    "hosts",
    {
        "id": "id",
        "cluster_id": "cluster_id",
        "pod_id": "pod_id",
        "up": "(state = 'Up')::int::bigint",
        "enabled": "(resource_state = 'Enabled')::int::bigint",
        "cores": "cpu_cores::bigint",
        "mhz": "cpu_mhz::bigint",
    },
    gone="removed IS NOT NULL",
    scope="zone_id = %(scope)s",
)
HOST_CAPACITY = CachedTable(
    "host_capacity",
    {
        "host_id": "host_id",
        "cpu_limit": "cpu_mhz_limit",
        "cpu_used": "cpu_mhz_used",
        "memory_limit": "memory_mib_limit",
        "memory_used": "memory_mib_used",
        "vms_limit": "vms_limit::bigint",
        "vms_used": "vms_used::bigint",
    },
)
POOLS = CachedTable(
    "storage_pools",
    {
        "id": "id",
        "cluster_id": "coalesce(cluster_id, -1)",
        "host_id": "CASE scope WHEN 'HOST' THEN coalesce(host_id, -1) ELSE -1 END",
        "up": "(state = 'Up' AND NOT is_full)::int::bigint",
        "capacity": "capacity_bytes",
        "allocated": "allocated_bytes",
        "local": "(scope = 'HOST')::int::bigint",
        "special": "(tags <> '{}' OR (hypervisor IS NOT NULL AND scope = 'ZONE'))::int::bigint",
    },
    gone="removed IS NOT NULL",
    scope="zone_id = %(scope)s",
)
ALL_ZONES = 0


def read_numbers(connection: Connection, zone_id: int) -> tuple[Mapping[str, Ints], Mapping[str, Ints]]:
    """Return every host that has a capacity row, with its hardware and use, and every pool, ordered by id."""
    hosts, capacity, pools = column_cache(connection).read_all(
        connection, [(HOSTS, zone_id), (HOST_CAPACITY, ALL_ZONES), (POOLS, zone_id)]
    )
    if np.array_equal(capacity["host_id"], hosts["id"]):  # one zone, no host removed
        return {**hosts, **capacity}, pools
    at = positions(capacity["host_id"], hosts["id"])
    if (at < 0).any():
        hosts = {name: column[at >= 0] for name, column in hosts.items()}
        at = at[at >= 0]
    return {**hosts, **{name: column[at] for name, column in capacity.items()}}, pools


def positions(ids: Ints, wanted: Ints) -> Ints:
    """Return the position of each wanted id in the sorted ``ids``, or -1 if the id is -1 or missing."""
    if len(ids) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    found = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[found] == wanted, found, -1).astype(np.int64)


def pools_of(
    rows: Mapping[str, Ints], cluster_ids: Ints, host_ids: Ints, *, with_local: bool
) -> tuple[Mapping[str, Ints], Ints, Ints]:
    """Return the columns of the pools that these clusters and hosts can use.

    The other two results are the positions of each pool's cluster and host in ``cluster_ids`` and ``host_ids``. The
    position -1 means that the pool serves all clusters or hosts. Without ``with_local``, hosts' local disks are
    omitted.
    """
    cluster, host = positions(cluster_ids, rows["cluster_id"]), positions(host_ids, rows["host_id"])
    there = ((rows["cluster_id"] < 0) | (cluster >= 0)) & ((rows["host_id"] < 0) | (host >= 0))
    if not with_local:
        there &= rows["local"] == 0
    return {name: column[there] for name, column in rows.items()}, cluster[there], host[there]
