"""The repair of broken invariants by the SQL statements that ``audit.sql`` defines for each invariant.

Claims without a consumer are deleted, missing claims of VMs and volumes are inserted, and counters are calculated
from the claims. This is repeated until a round repairs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.store.auditing.audit import (
    Invariant,
    can_heal,
    check_connection,
    heal_invariant,
    lock_for_healing,
    read_invariants,
)

MOST_ROUNDS = 4
"""A claim mended changes counters of hosts and owners, which are mended a round later, and then nothing is left."""


@dataclass(frozen=True, slots=True)
class Healing:
    """The scope of a repair: all breaches, or only the breaches of one VM or of one host (by id).

    A transaction repairs at most ``batch`` breaches.
    """

    batch: int = 50
    vm: UUID | None = None
    host_id: int | None = None

    @property
    def invariants(self) -> list[Invariant]:
        """The invariants whose breaches this repair can correct."""
        kept = {"vm": self.vm is not None, "host": self.host_id is not None}
        return [invariant for invariant in read_invariants() if can_heal(invariant, **kept)]


def heal_connection(connection: Connection, healing: Healing) -> dict[str, int]:
    """Repair all breaches of invariants in the caller's transaction.

    Returns the number of repaired breaches by the name of the invariant.
    """
    return in_rounds(healing, lambda one: mend(connection, one, healing))


def in_rounds(healing: Healing, mend_one: Callable[[Invariant], int]) -> dict[str, int]:
    """Repair breaches batch by batch until no breach is left that can be repaired.

    ``mend_one`` repairs one batch of an invariant and returns the number of repaired breaches. If each batch has
    its own transaction, this is safe on a live system, and it can be killed and run again. Returns the number of
    repaired breaches by the name of the invariant.
    """
    every: dict[str, int] = {}
    for _ in range(MOST_ROUNDS):
        before = sum(every.values())
        for invariant in healing.invariants:
            done = healing.batch
            while done >= healing.batch:  # ends, because repaired rows are no longer found
                done = mend_one(invariant)
                if done:
                    every[invariant.name] = every.get(invariant.name, 0) + done
        if sum(every.values()) == before:
            break
    return every


def broken(connection: Connection) -> list[tuple[str, str]]:
    """Return a description of each breach of an invariant, with the remedy for the breach."""
    helps = {invariant.name: _remedy(invariant) for invariant in read_invariants()}
    return [(breach, helps[found.name]) for found in check_connection(connection) for breach in found.breaches]


def _remedy(invariant: Invariant) -> str:
    if invariant.by_hand is None:
        return "heal mends it"
    return invariant.by_hand if invariant.heal is None else f"heal mends it, or else: {invariant.by_hand}"


def mend(connection: Connection, invariant: Invariant, healing: Healing) -> int:
    """Repair one batch of breaches of an invariant, and return the number of repaired breaches.

    Other transactions cannot change claims and resource counts until this transaction ends.
    """
    lock_for_healing(connection)
    return heal_invariant(connection, invariant, batch=healing.batch, vm=healing.vm, host_id=healing.host_id)
