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
    """Lock the planning of bulk calls in a zone or a part of it until the transaction ends.

    Plans for places without a common host do not wait for each other. The narrowest given place determines the
    lock.
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

    A transaction that claims by a plan takes this lock first, so that the places of the plan remain allowed until
    it commits. The lock is shared, but while a transaction waits to make changes, no further transaction gets it.
    """
    take_lock(connection, Lock.ZONE_RULES, zone_id, shared=True)


def change_zone_rules(connection: Connection, zone_ids: Iterable[int]) -> None:
    """Wait for the plans that are being committed in these zones, and block new ones until the transaction ends.

    A change of the state of a zone, pod or cluster, or of a dedication, takes this lock before it locks any row. So
    the claims of earlier plans are visible to it, and later plans follow the changed rules.
    """
    take_locks(connection, Lock.ZONE_RULES, zone_ids)
