"""Claims of VMs that already run in another cloud. They are written without checking limits.

The locks are those of ``store.ledger.ledger``, in its order.
"""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, text

from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.database.copying import PerRow, copy_rows
from bulkdeploy.store.ledger.ledger import ConsumerKind, lock_hosts
from bulkdeploy.store.tables.ledger import host_claims, storage_claims

_ADD_TO_HOSTS = text(
    "UPDATE host_capacity c SET cpu_mhz_used = cpu_mhz_used + w.cpu, memory_mib_used = memory_mib_used + w.memory,"
    " vms_used = vms_used + w.vms FROM (SELECT host_id, sum(cpu) AS cpu, sum(memory) AS memory, count(*) AS vms"
    "   FROM unnest(CAST(:hosts AS bigint[]), CAST(:cpu AS bigint[]), CAST(:memory AS bigint[]))"
    "   AS t(host_id, cpu, memory) GROUP BY host_id) w WHERE c.host_id = w.host_id"
)
_COUNT = text(
    "INSERT INTO account_clusters AS a (account_id, cluster_id, vms)"
    " SELECT w.account_id, h.cluster_id, count(*) FROM"
    "   unnest(CAST(:accounts AS bigint[]), CAST(:hosts AS bigint[])) AS w(account_id, host_id)"
    "   JOIN hosts h ON h.id = w.host_id GROUP BY 1, 2 ORDER BY 1, 2"
    " ON CONFLICT (account_id, cluster_id) DO UPDATE SET vms = a.vms + excluded.vms"
)
_ADD_TO_POOLS = text(
    "UPDATE storage_pools p SET allocated_bytes = allocated_bytes + w.size FROM (SELECT pool_id, sum(size) AS size"
    "   FROM unnest(CAST(:pools AS bigint[]), CAST(:sizes AS bigint[])) AS t(pool_id, size) GROUP BY pool_id) w"
    " WHERE p.id = w.pool_id"
)


def book_hosts(
    connection: Connection,
    consumers: Sequence[UUID],
    host_ids: Sequence[int],
    account_ids: Sequence[int],
    cpu_mhz: Sequence[int],
    memory_mib: Sequence[int],
) -> None:
    """Write the claims of VMs on the hosts on which they already run. Entry i of each sequence belongs to VM i."""
    if not consumers:
        return
    lock_hosts(connection, np.unique(np.array(host_ids, dtype=np.int64)))
    connection.execute(
        _ADD_TO_HOSTS, {"hosts": int_array(host_ids), "cpu": int_array(cpu_mhz), "memory": int_array(memory_mib)}
    )
    connection.execute(_COUNT, {"accounts": int_array(account_ids), "hosts": int_array(host_ids)})
    columns = {
        "consumer": PerRow(consumers),
        "host_id": PerRow(host_ids),
        "consumer_kind": ConsumerKind.VM.value,
        "account_id": PerRow(account_ids),
        "cpu_mhz": PerRow(cpu_mhz),
        "memory_mib": PerRow(memory_mib),
    }
    copy_rows(connection, host_claims, len(consumers), columns)


def book_pools(
    connection: Connection, consumers: Sequence[UUID], pool_ids: Sequence[int], sizes: Sequence[int]
) -> None:
    """Write the claims of volumes on the pools that already store them.

    Entry i of each sequence belongs to volume i.
    """
    if not consumers:
        return
    connection.execute(
        text("SELECT FROM storage_pools WHERE id = ANY(:ids) ORDER BY id FOR UPDATE"),
        {"ids": sorted(set(pool_ids))},
    )
    connection.execute(_ADD_TO_POOLS, {"pools": int_array(pool_ids), "sizes": int_array(sizes)})
    columns = {"consumer": PerRow(consumers), "pool_id": PerRow(pool_ids), "size_bytes": PerRow(sizes)}
    copy_rows(connection, storage_claims, len(consumers), columns)
