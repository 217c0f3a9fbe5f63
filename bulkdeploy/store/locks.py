"""All locks for which transactions wait, in the order in which transactions acquire them (ADR 5).

A transaction acquires locks in ascending order of rank, and locks rows of one table in ascending order of their
keys. Therefore two transactions cannot deadlock. ``tests/support/runs/lock_order.py`` checks the order in every
test.
"""

import random
from collections.abc import Iterable
from enum import Enum

from sqlalchemy import Connection, text

from bulkdeploy.store.transaction import find_transaction


class Lock(Enum):
    """The locks in the order in which they are acquired.

    The value of a member is the first key of an advisory lock, or the name of the table whose rows are locked.
    """

    SCHEMA = 4210
    """Migrating: the second process waits, and finds nothing to do."""

    BOOTSTRAP = 4208
    """Writing what a new database begins with."""

    ZONE_FILE = 4209
    """Loading a zone file: names of many nouns have no unique index. A load goes on in the order of its file."""

    UNMANAGED = 4214
    """Adopting or removing guests that no row knows."""

    REQUEST_TOKEN = 4207
    """A call with this token, by the token's hash."""

    VOLUME = 4204
    """A volume that a call is about, by id; its row comes too late to choose a pool by it."""

    ZONE_RULES = 4206
    """What a zone lets VMs use, by the zone's id: shared by planning, alone by changing it."""

    DOMAIN_LIMITS = 4203
    """Counting what a domain has where no count is kept, by its id."""

    ACCOUNT_LIMITS = 4205
    """The same of an account."""

    NETWORKS = "networks"
    """Networks that new nics are in."""

    ZONE_PLANS = 4201
    """Planning a bulk call, by the zone's id: alone, or shared where the call is pinned to a part of the zone."""

    POD_PLANS = 4211
    """Planning a bulk call pinned to this pod, by its id; shared where it is pinned to a part of the pod."""

    CLUSTER_PLANS = 4212
    """Planning a bulk call pinned to this cluster or to a host of it, by the cluster's id."""

    AFFINITY_GROUPS = "affinity_groups"
    """Counting members: by one planner at a time."""

    CLUSTERS = "clusters"
    """Claims that a cluster's thresholds bind are made one at a time."""

    HOSTS = "host_capacity"
    """Room of hosts. These are waited for with ``lock_timeout``, so that all others are held briefly."""

    ACCOUNT_CLUSTERS = "account_clusters"
    """How many VMs an account has in a cluster."""

    POOLS = "storage_pools"
    """Room of primary storage pools."""

    ADDRESS_RANGES = "ip_ranges"
    """Free addresses."""

    RESOURCE_COUNTS = "resource_counts"
    """What owners use: the ROOT domain's rows are everybody's, and held only from the last check to the commit."""

    DRIVER_TURNS = 4202
    """Leases of a host's jobs, by the host's id; 0: of all hosts."""

    GUEST_VOLUMES = 4213
    """Volumes that guests take or that are removed, by uuid, where the hypervisor does not compare fences."""

    CLUSTER_TURNS = 4215
    """Deciding what a hypervisor's cluster reserves for no one, by a hash of its uuid; alone."""

    @property
    def rank(self) -> int:
        """The position in the order of locks."""
        return list(Lock).index(self)


_ALONE = text("SELECT pg_advisory_xact_lock(:space, :key)")
_SHARED = text("SELECT pg_advisory_xact_lock_shared(:space, :key)")
_TAKEN = (
    # The lock is taken after the first setting and before the last one. NULL: the session's value.
    "WITH taken AS MATERIALIZED"
    "   (SELECT {}(:space, :key) WHERE set_config('lock_timeout', NULL, true) <> '')"
    " SELECT set_config('lock_timeout', CASE WHEN count(*) >= 0 THEN CAST(:after AS text) END, true) FROM taken"
)
_ALONE_IN_TURN = text(_TAKEN.format("pg_advisory_xact_lock"))
_SHARED_IN_TURN = text(_TAKEN.format("pg_advisory_xact_lock_shared"))
_MANY = text("SELECT pg_advisory_xact_lock(:space, key) FROM unnest(CAST(:keys AS integer[])) AS key")


def take_lock(connection: Connection, lock: Lock, key: int = 0, *, shared: bool = False) -> None:
    """Wait for an advisory lock. The lock is released when the transaction ends.

    Advisory locks are queued: while a transaction waits for an exclusive lock, no further transaction gets a shared
    one.
    """
    in_turn = turn_timeout(connection)
    if in_turn is None:
        connection.execute(_SHARED if shared else _ALONE, {"space": lock.value, "key": key})
    else:
        query = _SHARED_IN_TURN if shared else _ALONE_IN_TURN
        connection.execute(query, {"space": lock.value, "key": key, "after": in_turn})


def turn_timeout(connection: Connection) -> str | None:
    """Return the ``lock_timeout`` that applies after the transaction's first advisory lock.

    Returns None if the transaction uses the timeout of its session.
    """
    transaction = find_transaction(connection)
    return None if transaction is None else transaction.turn_timeout


def take_locks(connection: Connection, lock: Lock, keys: Iterable[int]) -> None:
    """Wait for several advisory locks of one kind, in ascending order of their keys, in one statement."""
    if ordered := sorted(set(keys)):
        connection.execute(_MANY, {"space": lock.value, "keys": ordered})


MOST_LOCK_TRIES = 9
FIRST_TIMEOUT_MS, LONGEST_TIMEOUT_MS, TIMEOUT_JITTER = 20.0, 5000.0, 0.05


def lock_timeout(connection: Connection) -> str:
    """Return the ``lock_timeout`` for locks that other transactions may hold for a long time.

    A transaction that waits while it holds locks blocks others that need only these locks. Therefore it waits for a
    short time, is rolled back, and is repeated by ``run_transaction``. The first timeout is 20 ms; it doubles at
    each attempt up to 5 s, with a random deviation of 5 %. After MOST_LOCK_TRIES, and outside ``run_transaction``,
    there is no timeout ("0").
    """
    transaction = find_transaction(connection)
    tries = MOST_LOCK_TRIES if transaction is None else transaction.lock_tries
    if tries >= MOST_LOCK_TRIES:
        return "0"
    most = min(FIRST_TIMEOUT_MS * 2**tries, LONGEST_TIMEOUT_MS)
    return f"{most * random.uniform(1 - TIMEOUT_JITTER, 1 + TIMEOUT_JITTER):.0f}ms"  # noqa: S311 - no secret
