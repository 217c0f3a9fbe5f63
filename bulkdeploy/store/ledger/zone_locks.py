"""Locks on planning bulk calls in a zone or a part of it, and on what a zone lets VMs use (ADR 5)."""

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
    """Wait for, and hold until the end of the transaction, the right to plan a bulk call in a zone or a part of it.

    Plans of places that have no host in common do not wait for each other. The narrowest pin counts.
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
    """Let the zone's, its pods' and clusters' states and dedications stay until the end of the transaction.

    Claiming by a plan begins with it: what the plan was allowed to use is not taken from it before it is
    committed. Many keep them at once; while one waits to change them, no further one begins to keep them.
    """
    take_lock(connection, Lock.ZONE_RULES, zone_id, shared=True)


def change_zone_rules(connection: Connection, zone_ids: Iterable[int]) -> None:
    """Wait until no plan is under way in these zones, and let none begin until the end of the transaction.

    A change of the state of a zone, pod or cluster, or of a dedication, begins with it, before any row: what was
    planned by the old rules is there to be counted, and what is planned afterwards goes by the new ones.
    """
    take_locks(connection, Lock.ZONE_RULES, zone_ids)
