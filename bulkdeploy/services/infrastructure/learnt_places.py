"""Hosts and storage pools that are imported from another cloud.

Their data comes from that cloud; no driver is called.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.drivers.hosts import HostModel
from bulkdeploy.services.infrastructure.host_admission import find_clusters, vms_limit
from bulkdeploy.services.infrastructure.hosts import OF_THE_ZONE, ReachedHost
from bulkdeploy.services.infrastructure.storage.storage_pools import SeenPool
from bulkdeploy.services.live_entities import changed_events, lock_entities, unique_name
from bulkdeploy.services.system import System
from bulkdeploy.store.infrastructure import host_rows, hosts
from bulkdeploy.store.infrastructure.storage import storage_pools
from bulkdeploy.store.jobs.events import record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, own_uuid

HARDWARE = frozenset({"cpu_cores", "cpu_mhz", "memory_mib"})


def learnt_hosts(connection: Connection, system: System, batch: Sequence[Arguments]) -> list[ReachedHost]:
    """Return the hosts of another cloud in the form that ``add_hosts`` accepts.

    Raises:
        InvalidParameter: zone, pod and cluster do not match, or a hypervisor is not the cluster's.
    """
    del system
    return [_host(given, row) for given, row in zip(batch, find_clusters(connection, batch), strict=True)]


def _host(given: Arguments, row: Any) -> ReachedHost:
    values = {
        "zone_id": row["zone_id"],
        "pod_id": row["pod_id"],
        "cluster_id": row["id"],
        "hypervisor": row["hypervisor"],
        "url": given["url"],
        "hypervisor_version": None,
        "tags": [],
        **columns_of(hosts.LEARNT, given),
    }
    cluster = EntityRef(Entity.CLUSTER, row["id"], row["uuid"], row["name"])
    model = HostModel(
        values["name"],
        values["ip_address"],
        values["cpu_sockets"],
        values["cpu_cores"],
        values["cpu_mhz"],
        values["memory_mib"],
        local_disk_bytes=0,
    )
    return ReachedHost(cluster, values, vms_limit(row["hypervisor"]), model, has_pool=False)


def follow_hosts(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Update hosts with the values that another cloud reports. Claims on the hosts are not changed.

    Raises:
        InvalidParameter: a name is already used.
    """
    lock_entities(connection, [host for host, _ in changes])
    written = [(host, columns_of(hosts.LEARNT, given)) for host, given in changes]
    with unique_name("name", changes[0][1].get("name"), OF_THE_ZONE):
        change_rows(connection, written)
    host_rows.refresh_limits(connection, [host.id for host, values in written if HARDWARE & values.keys()])
    record_events(connection, caller, changed_events(EventType.HOST_EDIT, "Host", written))


def learnt_pools(connection: Connection, system: System, batch: Sequence[Arguments]) -> list[SeenPool]:
    """Return the storage pools of another cloud in the form that ``create_pools`` accepts."""
    del connection, system
    return [SeenPool(given["zoneid"], given.get("clusterid"), _url(given), _pool(given)) for given in batch]


def _pool(given: Arguments) -> dict[str, Any]:
    learnt = columns_of(storage_pools.LEARNT, given)
    place = columns_of(storage_pools.LEARNT_PLACE, given)
    return {**own_uuid(given), "path": "/", "tags": _tags(given), **place, **learnt}


def follow_pools(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Update storage pools with the values that another cloud reports. Claims on the pools are not changed.

    Raises:
        InvalidParameter: a name is already used.
    """
    lock_entities(connection, [pool for pool, _ in changes])
    written = [
        (pool, columns_of(storage_pools.LEARNT, given) | ({"tags": _tags(given)} if "tags" in given else {}))
        for pool, given in changes
    ]
    with unique_name("name", changes[0][1].get("name"), "another pool of the zone"):
        change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.STORAGE_POOL_EDIT, "StoragePool", written))


def _tags(given: Arguments) -> list[str]:
    return [tag for tag in given.get("tags", "").split(",") if tag]


def _url(given: Arguments) -> str:
    return f"{given.get('pooltype')}://{given.get('server', '')}{given.get('path', '')}"
