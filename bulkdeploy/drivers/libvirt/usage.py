"""The usage of a libvirt host and of all its running domains, read with one call each."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from bulkdeploy.domain.virtual_machines.usage import GuestUsage, HostUsage, PoolUsage
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.libvirt.storage.storage import pool_path

STATISTICS = (
    libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
    | libvirt.VIR_DOMAIN_STATS_BALLOON
    | libvirt.VIR_DOMAIN_STATS_INTERFACE
    | libvirt.VIR_DOMAIN_STATS_BLOCK
)


def read_usage(call: HostCall, pools: Mapping[UUID, str]) -> HostUsage:
    """Return the CPU and memory usage of a host, of its running guests, and of its active pools.

    ``pools`` maps the uuids of the pools to their folders on the host.

    Raises:
        libvirt.libvirtError: the host does not answer.
    """
    connection = call.connection
    cpu: Mapping[str, int] = connection.getCPUStats(libvirt.VIR_NODE_CPU_STATS_ALL_CPUS)
    memory: Mapping[str, int] = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)
    idle = cpu.get("idle", 0) + cpu.get("iowait", 0)
    # "utilization" is a percentage that some hosts report beside the nanoseconds.
    total = sum(value for name, value in cpu.items() if name != "utilization")
    free = sum(memory.get(name, 0) for name in ("free", "buffers", "cached"))
    records = connection.getAllDomainStats(STATISTICS, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE)
    return HostUsage(
        call.host.uuid,
        total - idle,
        total,
        max(memory.get("total", 0) - free, 0),
        [_guest_usage(UUID(domain.UUIDString()), statistics) for domain, statistics in records],
        read_pools(connection, pools),
    )


def _guest_usage(uuid: UUID, statistics: Mapping[str, Any]) -> GuestUsage:
    return GuestUsage(
        uuid,
        int(statistics.get("cpu.time", 0)),
        int(statistics.get("balloon.current", 0)),
        statistics.get("balloon.unused"),
        _sum(statistics, "net", "rx.bytes"),
        _sum(statistics, "net", "tx.bytes"),
        _sum(statistics, "block", "rd.bytes"),
        _sum(statistics, "block", "wr.bytes"),
        _sum(statistics, "block", "rd.reqs"),
        _sum(statistics, "block", "wr.reqs"),
    )


def _sum(statistics: Mapping[str, Any], group: str, name: str) -> int:
    """Return the sum of a figure over all devices of a group.

    The figures have names such as ``block.0.rd.bytes``.
    """
    count = int(statistics.get(f"{group}.count", 0))
    return sum(int(statistics.get(f"{group}.{device}.{name}", 0)) for device in range(count))


def read_pools(connection: Any, pools: Mapping[UUID, str]) -> dict[UUID, PoolUsage]:
    """Return the usage of the pools that are active on a host.

    If the host has no pool with the uuid, a libvirt pool with the same folder is used, as ``FilePool`` does.
    """
    found = {uuid: pool for uuid in pools if (pool := _find_pool(connection, uuid)) is not None}
    if len(found) < len(pools):
        by_path: dict[str, Any] = {}
        with suppress(libvirt.libvirtError):  # the rest of the usage counts even if the storage daemon is down
            by_path = {pool_path(known): known for known in connection.listAllStoragePools()}
        found |= {uuid: by_path[path] for uuid, path in pools.items() if uuid not in found and path in by_path}
    usage = {uuid: _pool_usage(pool) for uuid, pool in found.items()}
    return {uuid: one for uuid, one in usage.items() if one is not None}


def _find_pool(connection: Any, uuid: UUID) -> Any | None:
    try:
        return connection.storagePoolLookupByUUID(uuid.bytes)
    except libvirt.libvirtError:
        return None


def _pool_usage(pool: Any) -> PoolUsage | None:
    """Return the usage of a libvirt pool, or None if the pool is not active."""
    try:
        state, capacity, allocation, _ = pool.info()
    except libvirt.libvirtError:
        return None
    return PoolUsage(int(allocation), int(capacity)) if state == libvirt.VIR_STORAGE_POOL_RUNNING else None
