"""Locks on planning in a zone or a part of it, and on the placement rules of a zone (ADR 5)."""

from collections.abc import Iterable

from sqlalchemy import Connection, text

from bulkdeploy.store.locks import Lock, take_lock, take_locks


def lock_plans(
    connection: Connection,
    zone_id: int,
    *,
    pod_id: int | None = None,
    cluster_id: int | None = None,
    host_id: int | None = None,
) -> None:
    """Lock the planning of bulk calls in a zone, or in a part of it, until the transaction ends.

    The narrowest of the given pod, cluster and host determines the lock. Plans for parts without a common host do
    not wait for each other.
    """
    if cluster_id is not None or host_id is not None:
        found = connection.execute(_CLUSTER, {"cluster": cluster_id, "host": host_id}).one()
        pod_id, cluster_id = found.pod_id, found.id
    take_lock(connection, Lock.ZONE_PLANS, zone_id, shared=pod_id is not None)
    if pod_id is not None:
        take_lock(connection, Lock.POD_PLANS, pod_id, shared=cluster_id is not None)
    if cluster_id is not None:
        take_lock(connection, Lock.CLUSTER_PLANS, cluster_id)


_CLUSTER = text(
    "SELECT id, pod_id FROM clusters"
    " WHERE id = coalesce((SELECT cluster_id FROM hosts WHERE id = :host), CAST(:cluster AS bigint))"
)


def keep_zone_rules(connection: Connection, zone_id: int) -> None:
    """Prevent changes of states and dedications in a zone, its pods and its clusters until the transaction ends.

    A transaction that claims by a plan acquires this lock first, so that the hosts of the plan remain allowed until
    the transaction commits. The lock is shared, but while a transaction waits to make changes, no further
    transaction gets the lock.
    """
    take_lock(connection, Lock.ZONE_RULES, zone_id, shared=True)


def change_zone_rules(connection: Connection, zone_ids: Iterable[int]) -> None:
    """Wait for the plans that are being committed in these zones, and block new plans until the transaction ends.

    A transaction that changes the state of a zone, pod or cluster, or a dedication, acquires this lock before it
    locks any row. Therefore it sees the claims of earlier plans, and later plans use the changed rules.
    """
    take_locks(connection, Lock.ZONE_RULES, zone_ids)
