"""Locks of a whole zone: on planning bulk calls in it, and on what it lets VMs use (ADR 5)."""

from collections.abc import Iterable

from sqlalchemy import Connection

from bulkdeploy.store.locks import Lock, take_lock, take_locks


def lock_zone(connection: Connection, zone_id: int) -> None:
    """Wait for, and hold until the end of the transaction, the right to plan a bulk call in this zone."""
    take_lock(connection, Lock.ZONE_PLANS, zone_id)


def keep_zone_rules(connection: Connection, zone_id: int) -> None:
    """Let the zone's, its pods' and clusters' states and dedications stay until the end of the transaction.

    Whoever claims by a plan begins with it: what the plan was allowed to use is not taken from it before it is
    committed. Many keep them at once; who waits to change them lets nobody new in before it.
    """
    take_lock(connection, Lock.ZONE_RULES, zone_id, shared=True)


def change_zone_rules(connection: Connection, zone_ids: Iterable[int]) -> None:
    """Wait until no plan is under way in these zones, and let none begin until the end of the transaction.

    Whoever changes the state of a zone, pod or cluster, or a dedication, begins with it, before any row: what was
    planned by the old rules is there to be counted, and what is planned afterwards goes by the new ones.
    """
    take_locks(connection, Lock.ZONE_RULES, zone_ids)
