"""Locks that let one caller at a time decide about a hypervisor's cluster."""

import hashlib

from sqlalchemy import Connection, text

from bulkdeploy.store.locks import Lock, take_lock

_PATIENCE = text("SELECT set_config('lock_timeout', :timeout, true)")


def take_turn(connection: Connection, cluster: str, timeout_s: float) -> None:
    """Acquire the advisory lock of a hypervisor's cluster; it is released when the transaction ends.

    PostgreSQL's LockNotAvailable is raised if the lock is not free within ``timeout_s`` seconds.
    """
    connection.execute(_PATIENCE, {"timeout": f"{max(int(1000 * timeout_s), 1)}ms"})
    key = int.from_bytes(hashlib.sha256(cluster.encode()).digest()[:4], signed=True)
    take_lock(connection, Lock.CLUSTER_TURNS, key)
