"""A bare zone of hosts and pools, written through the tables, for tests of the ledger alone."""

from sqlalchemy import Connection, insert

from bulkdeploy.store.tables.ledger import host_capacity
from bulkdeploy.store.tables.topology import clusters, hosts, pods, storage_pools, zones


def make_hosts(connection: Connection, count: int, *, vms: int) -> list[int]:
    """Ids of ``count`` hosts in one cluster, each with room for ``vms`` VMs of 1 core, 1000 MHz, 1024 MiB."""
    zone = connection.execute(
        insert(zones).values(name="z", network_type="Advanced").returning(zones.c.id)
    ).scalar_one()
    pod = connection.execute(insert(pods).values(name="p", zone_id=zone).returning(pods.c.id)).scalar_one()
    cluster = connection.execute(
        insert(clusters).values(name="c", zone_id=zone, pod_id=pod, hypervisor="KVM").returning(clusters.c.id)
    ).scalar_one()
    rows = [
        {
            "name": f"h-{number}",
            "zone_id": zone,
            "pod_id": pod,
            "cluster_id": cluster,
            "ip_address": f"10.0.0.{number}",
            "hypervisor": "KVM",
            "cpu_cores": vms,
            "cpu_mhz": 1000,
            "memory_mib": vms * 1024,
        }
        for number in range(count)
    ]
    ids = sorted(connection.execute(insert(hosts).returning(hosts.c.id), rows).scalars())
    connection.execute(
        insert(host_capacity),
        [
            {
                "host_id": host,
                "cpu_mhz_limit": vms * 1000,
                "memory_mib_limit": vms * 1024,
                "vms_limit": vms,
            }
            for host in ids
        ],
    )
    return ids


def make_pool(connection: Connection, capacity_bytes: int) -> int:
    """The id of a zone-wide pool; a zone must exist."""
    zone = connection.execute(zones.select()).first()
    if zone is None:
        raise LookupError("make hosts first")
    return int(
        connection.execute(
            insert(storage_pools)
            .values(name="pool", zone_id=zone.id, scope="ZONE", capacity_bytes=capacity_bytes)
            .returning(storage_pools.c.id)
        ).scalar_one()
    )
