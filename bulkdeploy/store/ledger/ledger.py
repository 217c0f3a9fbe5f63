"""Claims on hosts and pools, checked and written together (one file: their global lock order).

Every function here runs inside the caller's transaction. The lock order is: the settings of the zone that limit
VMs, clusters by id, hosts by id, the owners' counts by account and cluster, then pools by id (ADR 5). Other orders
lead to deadlocks between two deployments. A claim that finds less free capacity than its plan saw raises
``TransactionConflict``: the whole transaction is repeated on a new snapshot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, text

from bulkdeploy.placement.model import Floats, Ints
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.database.copying import PerRow, copy_rows
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.locks import lock_timeout, turn_timeout
from bulkdeploy.store.tables.ledger import host_claims, storage_claims


class ConsumerKind(IntEnum):
    """The kind of the consumer of a host claim.

    A MIGRATION is a job that claims the host which its VM leaves. A RESERVATION is a job that has not begun and
    claims the host to which its VM will move.
    """

    VM = 0
    MIGRATION = 1
    RESERVATION = 2


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The shares of their CPU and memory up to which clusters may be filled. Infinity means no threshold.

    ``cluster_ids`` are in ascending order; ``cpu`` and ``memory`` have one entry per cluster.
    """

    cluster_ids: Ints
    cpu: Floats
    memory: Floats

    def joined(self, other: "Thresholds") -> "Thresholds":
        """Return the union of these thresholds and others that were read at the same moment."""
        ids, first = np.unique(np.concatenate((self.cluster_ids, other.cluster_ids)), return_index=True)
        cpu, memory = np.concatenate((self.cpu, other.cpu)), np.concatenate((self.memory, other.memory))
        return Thresholds(ids, cpu[first], memory[first])

    def of(self, cluster_ids: Ints) -> "Thresholds":
        """Return the thresholds of these clusters. Clusters without a threshold are omitted."""
        bounded = np.isin(self.cluster_ids, cluster_ids) & (np.isfinite(self.cpu) | np.isfinite(self.memory))
        return Thresholds(self.cluster_ids[bounded], self.cpu[bounded], self.memory[bounded])


NO_THRESHOLDS = Thresholds(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))

_CLAIM_HOSTS = text(
    "WITH w AS MATERIALIZED (SELECT w.*, h.cluster_id FROM unnest(CAST(:hosts AS bigint[]), CAST(:vms AS bigint[]),"
    "     CAST(:cpu AS bigint[]), CAST(:memory AS bigint[])) AS w(host_id, vms, cpu, memory)"
    "   JOIN hosts h ON h.id = w.host_id"
    "   WHERE h.state = 'Up' AND h.resource_state = 'Enabled' AND h.removed IS NULL),"
    # Shares are taken of what is up and enabled, and divided, as placement.rules.cluster_threshold does it. One sum
    # for each cluster instead of joins, of which the planner expects a row each: of 10,000 clusters they took 8 s.
    " parts AS (SELECT h.cluster_id, c.cpu_mhz_used AS cpu, c.cpu_mhz_limit AS cpu_limit,"
    "     c.memory_mib_used AS memory, c.memory_mib_limit AS memory_limit,"
    "     CAST(NULL AS float8) AS cpu_share, CAST(NULL AS float8) AS memory_share"
    "   FROM hosts h JOIN host_capacity c ON c.host_id = h.id WHERE h.cluster_id = ANY(CAST(:clusters AS bigint[]))"
    "   AND h.state = 'Up' AND h.resource_state = 'Enabled' AND h.removed IS NULL"
    "   UNION ALL SELECT cluster_id, cpu, 0, memory, 0, NULL, NULL FROM w"
    "   UNION ALL SELECT cluster_id, 0, 0, 0, 0, cpu_share, memory_share FROM"
    "     unnest(CAST(:clusters AS bigint[]), CAST(:cpu_shares AS float8[]), CAST(:memory_shares AS float8[]))"
    "     AS t(cluster_id, cpu_share, memory_share)),"
    " crowded AS (SELECT cluster_id FROM parts GROUP BY cluster_id"
    "   HAVING CAST(sum(cpu) AS float8) / greatest(sum(cpu_limit), 1) > max(cpu_share)"
    "   OR CAST(sum(memory) AS float8) / greatest(sum(memory_limit), 1) > max(memory_share)),"
    " claimed AS (UPDATE host_capacity c SET cpu_mhz_used = cpu_mhz_used + w.cpu,"
    "   memory_mib_used = memory_mib_used + w.memory, vms_used = vms_used + w.vms"
    "   FROM w WHERE c.host_id = w.host_id AND cpu_mhz_used + w.cpu <= cpu_mhz_limit"
    "   AND memory_mib_used + w.memory <= memory_mib_limit AND vms_used + w.vms <= vms_limit"
    "   AND w.cluster_id NOT IN (SELECT cluster_id FROM crowded)"
    "   RETURNING w.host_id, w.cluster_id),"
    " counted AS (INSERT INTO account_clusters AS a (account_id, cluster_id, vms)"
    "   SELECT o.account_id, cluster_id, sum(o.vms) FROM claimed JOIN unnest(CAST(:accounts AS bigint[]),"
    "     CAST(:account_hosts AS bigint[]), CAST(:account_vms AS bigint[])) AS o(account_id, host_id, vms)"
    "     USING (host_id) GROUP BY 1, 2 ORDER BY 1, 2"
    "   ON CONFLICT (account_id, cluster_id) DO UPDATE SET vms = a.vms + excluded.vms)"
    " SELECT count(*) FROM claimed"
)


def claim_hosts(
    connection: Connection,
    host_ids: Ints,
    consumers: Sequence[UUID | str],
    *,
    account_id: int | Ints,
    cpu_mhz: int | Ints,
    memory_mib: int | Ints,
    thresholds: Thresholds = NO_THRESHOLDS,
    kind: ConsumerKind = ConsumerKind.VM,
) -> None:
    """Claim one host for each consumer, all or nothing.

    Entry i of ``host_ids`` belongs to consumer i of type ``kind``.

    ``account_id``, ``cpu_mhz`` and ``memory_mib`` are the owner of each VM and the amounts that it claims, as one
    entry per VM if they differ. ``thresholds`` are those of the hosts' clusters, if they limit the claim.

    Raises:
        TransactionConflict: a host has not enough free capacity or is no longer Up and Enabled, or its cluster
            would exceed a threshold.
    """
    hosts, position, vms = np.unique(host_ids, return_inverse=True, return_counts=True)
    if isinstance(account_id, int):
        accounts, account_hosts, account_vms = np.full_like(hosts, account_id), hosts, vms
    else:
        (accounts, account_hosts), account_vms = np.unique((account_id, host_ids), axis=1, return_counts=True)
    _lock_clusters(connection, thresholds)
    lock_hosts(connection, hosts)
    changed = connection.execute(
        _CLAIM_HOSTS,
        {
            "hosts": int_array(hosts.tolist()),
            "vms": int_array(vms.tolist()),
            "cpu": int_array(_summed(position, vms, cpu_mhz)),
            "memory": int_array(_summed(position, vms, memory_mib)),
            "accounts": int_array(accounts.tolist()),
            "account_hosts": int_array(account_hosts.tolist()),
            "account_vms": int_array(account_vms.tolist()),
            "clusters": int_array(thresholds.cluster_ids.tolist()),
            "cpu_shares": thresholds.cpu.tolist(),
            "memory_shares": thresholds.memory.tolist(),
        },
    ).scalar_one()
    if changed != len(hosts):
        raise TransactionConflict
    copy_rows(
        connection,
        host_claims,
        len(consumers),
        {
            "consumer": PerRow(consumers),
            "host_id": PerRow(host_ids.tolist()),
            "consumer_kind": kind.value,
            "account_id": _column(account_id),
            "cpu_mhz": _column(cpu_mhz),
            "memory_mib": _column(memory_mib),
        },
    )


def _column(values: int | Ints) -> int | PerRow:
    return values if isinstance(values, int) else PerRow(values.tolist())


def _summed(host: Ints, vms: Ints, amount: int | Ints) -> list[int]:
    """Return the sum of the amounts that VMs claim on each host. The sums are exact below 2**53."""
    if isinstance(amount, int):
        return [count * amount for count in vms.tolist()]
    return [int(each) for each in np.bincount(host, weights=amount, minlength=len(vms)).tolist()]


def claim_pools(
    connection: Connection,
    limits: Mapping[int, int],
    pool_ids: Sequence[int],
    sizes: Sequence[int],
    consumers: Sequence[UUID | str],
) -> None:
    """Claim storage in one pool per volume. ``limits`` has the bytes that may be claimed in each pool, by pool id.

    Raises:
        TransactionConflict: a pool has less free capacity than the plan saw, or is no longer Up.
    """
    wanted: dict[int, int] = {}
    for pool_id, size in zip(pool_ids, sizes, strict=True):
        wanted[pool_id] = wanted.get(pool_id, 0) + size
    pools = sorted(wanted)
    if len(pools) > 1:
        connection.execute(
            text("SELECT FROM storage_pools WHERE id = ANY(:ids) ORDER BY id FOR UPDATE"), {"ids": pools}
        )
    changed = connection.execute(
        text(
            "UPDATE storage_pools p SET allocated_bytes = allocated_bytes + w.size FROM (SELECT"
            " unnest(CAST(:pools AS bigint[])) AS pool_id, unnest(CAST(:sizes AS bigint[])) AS size,"
            " unnest(CAST(:limits AS bigint[])) AS most) w"
            " WHERE p.id = w.pool_id AND allocated_bytes + w.size <= w.most AND p.state = 'Up'"
        ),
        {
            "pools": int_array(pools),
            "sizes": int_array(wanted[pool] for pool in pools),
            "limits": int_array(limits[pool] for pool in pools),
        },
    ).rowcount
    if changed != len(pools):
        raise TransactionConflict
    copy_rows(
        connection,
        storage_claims,
        len(consumers),
        {"consumer": PerRow(consumers), "pool_id": PerRow(pool_ids), "size_bytes": PerRow(sizes)},
    )


_LOCK_COUNTS = text(
    "SELECT FROM account_clusters WHERE (account_id, cluster_id) IN ("
    "   SELECT x.account_id, h.cluster_id FROM host_claims x JOIN hosts h ON h.id = x.host_id"
    "   WHERE x.consumer = ANY(:who)) ORDER BY account_id, cluster_id FOR UPDATE"
)
_RELEASE_HOSTS = text(
    "WITH gone AS (DELETE FROM host_claims WHERE consumer = ANY(:who)"
    "   RETURNING host_id, account_id, cpu_mhz, memory_mib),"
    " sums AS (SELECT host_id, sum(cpu_mhz) AS cpu, sum(memory_mib) AS memory, count(*) AS vms"
    "   FROM gone GROUP BY host_id),"
    " counts AS (SELECT g.account_id, h.cluster_id, count(*) AS vms FROM gone g JOIN hosts h ON h.id = g.host_id"
    "   GROUP BY 1, 2),"
    " counted AS (UPDATE account_clusters a SET vms = a.vms - n.vms FROM counts n"
    "   WHERE a.account_id = n.account_id AND a.cluster_id = n.cluster_id)"
    " UPDATE host_capacity c SET cpu_mhz_used = cpu_mhz_used - s.cpu,"
    " memory_mib_used = memory_mib_used - s.memory, vms_used = vms_used - s.vms"
    " FROM sums s WHERE c.host_id = s.host_id"
)


def release_hosts_of(connection: Connection, consumers: Sequence[UUID]) -> None:
    """Delete the host claims of these consumers and release their capacity.

    Consumers without a claim are skipped.
    """
    hosts = connection.execute(
        text("SELECT DISTINCT host_id FROM host_claims WHERE consumer = ANY(:who)"), {"who": list(consumers)}
    ).scalars()
    lock_hosts(connection, np.sort(np.array(list(hosts), dtype=np.int64)))
    who = {"who": list(consumers)}
    connection.execute(_LOCK_COUNTS, who)
    connection.execute(_RELEASE_HOSTS, who)


_LOCK_COUNTS_AT = text(
    "SELECT FROM account_clusters WHERE (account_id, cluster_id) IN ("
    "   SELECT x.account_id, h.cluster_id FROM host_claims x, hosts h"
    "   WHERE x.consumer = :who AND h.id = ANY(:hosts)) ORDER BY account_id, cluster_id FOR UPDATE"
)
_LOCK_POOLS_OF = text(
    "SELECT FROM storage_pools WHERE id = ANY(:pools) OR id IN"
    " (SELECT pool_id FROM storage_claims WHERE consumer = ANY(:volumes)) ORDER BY id FOR UPDATE"
)


def lock_move(
    connection: Connection,
    consumer: UUID,
    volumes: Sequence[UUID],
    host_ids: Sequence[int],
    pool_ids: Sequence[int],
    thresholds: Thresholds,
) -> None:
    """Lock, in the required order, everything that a move of a consumer and its volumes releases and claims.

    A transaction that releases and then claims calls this function first. Releasing acquires locks of every kind,
    so the locks of the claim would otherwise be acquired in the wrong order.
    """
    held = connection.execute(
        text("SELECT host_id FROM host_claims WHERE consumer = :who"), {"who": consumer}
    ).scalars()
    hosts = sorted({*held, *host_ids})
    _lock_clusters(connection, thresholds)
    lock_hosts(connection, np.array(hosts, dtype=np.int64))
    connection.execute(_LOCK_COUNTS_AT, {"who": consumer, "hosts": hosts})
    if volumes or pool_ids:
        connection.execute(_LOCK_POOLS_OF, {"volumes": list(volumes), "pools": sorted(set(pool_ids))})


def release_pools_of(connection: Connection, volumes: Sequence[UUID]) -> None:
    """Delete the storage claims of these volumes and release their capacity.

    Volumes without a claim are skipped.
    """
    connection.execute(
        text(
            "SELECT FROM storage_pools WHERE id IN (SELECT pool_id FROM storage_claims WHERE consumer = ANY(:who))"
            " ORDER BY id FOR UPDATE"
        ),
        {"who": list(volumes)},
    )
    connection.execute(
        text(
            "WITH gone AS (DELETE FROM storage_claims WHERE consumer = ANY(:who) RETURNING pool_id, size_bytes),"
            " sums AS (SELECT pool_id, sum(size_bytes) AS size FROM gone GROUP BY pool_id)"
            " UPDATE storage_pools p SET allocated_bytes = allocated_bytes - s.size"
            " FROM sums s WHERE p.id = s.pool_id"
        ),
        {"who": list(volumes)},
    )


def _lock_clusters(connection: Connection, thresholds: Thresholds) -> None:
    """Lock the rows of clusters in id order, so that claims subject to thresholds are made one at a time."""
    if len(thresholds.cluster_ids):
        connection.execute(
            text("SELECT FROM clusters WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE"),
            {"ids": thresholds.cluster_ids.tolist()},
        )


_LOCK_HOSTS = text(
    # The first setting is made before the first row is locked, and the last one after all rows are locked.
    "WITH locked AS (SELECT host_id FROM host_capacity WHERE (SELECT set_config('lock_timeout', :most, true)) <> ''"
    "   AND host_id = ANY(:ids) ORDER BY host_id FOR UPDATE)"
    " SELECT set_config('lock_timeout', CASE WHEN hosts >= 0 THEN CAST(:after AS text) END, true)"
    " FROM (SELECT count(*) AS hosts FROM locked) AS counted"
)


def lock_hosts(connection: Connection, hosts: Ints) -> None:
    """Lock the capacity rows of hosts in id order, so that two transactions cannot deadlock.

    The wait has a timeout: a transaction that has locks on plans, a cluster or other hosts is rolled back and
    repeated.
    """
    waits = {"most": lock_timeout(connection), "after": turn_timeout(connection) or "0"}
    connection.execute(_LOCK_HOSTS, {"ids": hosts.tolist(), **waits})
