"""Locks of a whole zone: on planning bulk calls in it, and on what it lets VMs use (ADR 5)."""

from sqlalchemy import Connection, text

ZONE_LOCK_SPACE = 4201
"""First key of the advisory locks that serialise planning per zone; the second is the zone's id."""


def lock_zone(connection: Connection, zone_id: int) -> None:
    """Wait for, and hold until the end of the transaction, the right to plan a bulk call in this zone."""
    connection.execute(
        text("SELECT pg_advisory_xact_lock(:space, :zone)"), {"space": ZONE_LOCK_SPACE, "zone": zone_id}
    )


ZONE_RULES_LOCK_SPACE = 4206
"""First key of the advisory locks on what a zone lets VMs use; the second is the zone's id."""


def keep_zone_rules(connection: Connection, zone_id: int) -> None:
    """Let the zone's, its pods' and clusters' states and dedications stay until the end of the transaction.

    Whoever claims by a plan begins with it: what the plan was allowed to use is not taken from it before it is
    committed. Many keep them at once; who waits to change them lets nobody new in before it.
    """
    connection.execute(
        text("SELECT pg_advisory_xact_lock_shared(:space, :zone)"),
        {"space": ZONE_RULES_LOCK_SPACE, "zone": zone_id},
    )


def change_zone_rules(connection: Connection, zone_id: int) -> None:
    """Wait until no plan is under way in the zone, and let none begin until the end of the transaction.

    Whoever changes the state of a zone, pod or cluster, or a dedication, begins with it, before any row: what was
    planned by the old rules is there to be counted, and what is planned afterwards goes by the new ones.
    """
    connection.execute(
        text("SELECT pg_advisory_xact_lock(:space, :zone)"), {"space": ZONE_RULES_LOCK_SPACE, "zone": zone_id}
    )
