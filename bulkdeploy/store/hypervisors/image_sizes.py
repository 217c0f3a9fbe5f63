"""The space that fetched images use in their owners' secondary storage and in pools.

A copy claims space of its pool as a volume does, with its own uuid as the consumer. All functions run in the
caller's transaction.
"""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, text

from bulkdeploy.domain.errors import ResourceUnavailable
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.store.accounts.live_limits import require_within_limits
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.ledger.snapshot import pool_limits

_TEMPLATE = text("SELECT id, account_id, fetched_bytes, removed FROM templates WHERE uuid = :template")
_FETCHED = text(
    "UPDATE templates SET size_bytes = :disk, physical_size_bytes = :file, fetched_bytes = :file WHERE id = :id"
    " AND (size_bytes, physical_size_bytes, fetched_bytes) IS DISTINCT FROM (:disk, :file, :file)"
)
_POOL = text(
    "SELECT id, name, capacity_bytes, allocated_bytes, scope = 'HOST' AS is_local FROM storage_pools"
    " WHERE uuid = :pool AND removed IS NULL FOR UPDATE"
)
_COPY = text(
    "UPDATE template_copies c SET file_bytes = :file FROM template_copies o"
    " WHERE (c.template_uuid, c.pool_uuid) = (:template, :pool)"
    " AND (o.template_uuid, o.pool_uuid) = (c.template_uuid, c.pool_uuid)"
    " RETURNING c.uuid, coalesce(o.file_bytes, 0) AS before"
)
_CLAIM = text(
    "INSERT INTO storage_claims (consumer, pool_id, size_bytes) VALUES (:who, :pool, :file)"
    " ON CONFLICT (consumer) DO UPDATE SET pool_id = excluded.pool_id, size_bytes = excluded.size_bytes"
)
_ALLOCATE = text("UPDATE storage_pools SET allocated_bytes = allocated_bytes + :more WHERE id = :pool")


def admit(connection: Connection, template_uuid: UUID, pool_uuid: UUID, file_bytes: int, disk_bytes: int) -> None:
    """Claim the space of an image that is about to be stored in a pool. An image is counted only once per pool.

    Templates without a row, which drivers use in trials, have no owner and are not counted.

    Raises:
        ResourceLimitExceeded: the image exceeds the secondary storage limit of the owner or of a domain above it.
        ResourceUnavailable: the pool has no space for the file, or was deleted.
    """
    template = connection.execute(_TEMPLATE, {"template": template_uuid}).first()
    if template is None:
        return
    if file_bytes > template.fetched_bytes and template.removed is None:
        owner = owners_by_id(connection, [template.account_id])[template.account_id]
        more = file_bytes - template.fetched_bytes
        require_within_limits(connection, [owner], ResourceType.SECONDARY_STORAGE, amount=more)
    configuration = read_configuration(connection)
    pool = connection.execute(_POOL, {"pool": pool_uuid}).first()
    if pool is None:
        raise ResourceUnavailable(f"storage pool {pool_uuid} was deleted")
    given = {"template": template_uuid, "pool": pool_uuid, "file": file_bytes}
    copy = connection.execute(_COPY, given).one()
    more = file_bytes - copy.before
    columns = (np.array([value]) for value in (pool.id, pool.capacity_bytes, pool.is_local))
    limit = int(pool_limits(configuration, *columns)[0])
    if more > 0 and pool.allocated_bytes + more > limit:
        raise ResourceUnavailable(f"storage pool {pool.name} has no space for the file of {file_bytes} bytes")
    connection.execute(_CLAIM, {"who": copy.uuid, "pool": pool.id, "file": file_bytes})
    connection.execute(_ALLOCATE, {"more": more, "pool": pool.id})
    connection.execute(_FETCHED, {"id": template.id, "file": file_bytes, "disk": disk_bytes})


_NOT_FETCHED = text(
    "UPDATE templates t SET fetched_bytes = 0 WHERE t.uuid = ANY(:templates) AND NOT EXISTS"
    " (SELECT FROM template_copies c WHERE c.template_uuid = t.uuid AND c.file_bytes IS NOT NULL)"
)
_LOCK_POOLS = text(
    "SELECT FROM storage_pools WHERE uuid IN (SELECT pool_uuid FROM template_copies WHERE uuid = ANY(:who))"
    " ORDER BY id FOR UPDATE"
)
_RELEASE = text(
    "WITH gone AS (DELETE FROM storage_claims WHERE consumer = ANY(:who) RETURNING pool_id, size_bytes),"
    " sums AS (SELECT pool_id, sum(size_bytes) AS size FROM gone GROUP BY pool_id),"
    " copies AS (UPDATE template_copies SET file_bytes = NULL WHERE uuid = ANY(:who))"
    " UPDATE storage_pools p SET allocated_bytes = allocated_bytes - s.size FROM sums s WHERE p.id = s.pool_id"
)
_OF_PAIR = text("SELECT uuid FROM template_copies WHERE template_uuid = :template AND pool_uuid = :pool")
_OF_POOLS = text(
    "SELECT c.uuid FROM template_copies c JOIN storage_pools p ON p.uuid = c.pool_uuid"
    " WHERE p.id = ANY(CAST(:pools AS bigint[]))"
)
_FORGET = text("DELETE FROM template_copies WHERE uuid = ANY(:who) RETURNING template_uuid")


def release(connection: Connection, template_uuid: UUID, pool_uuid: UUID) -> None:
    """Stop counting an image in a pool, because its file was not stored there."""
    given = {"template": template_uuid, "pool": pool_uuid}
    _release(connection, list(connection.execute(_OF_PAIR, given).scalars()))
    connection.execute(_NOT_FETCHED, {"templates": [template_uuid]})


def forget_copies(connection: Connection, pool_ids: Sequence[int]) -> None:
    """Delete the records and the claims of template copies in pools that are being deleted."""
    who = list(connection.execute(_OF_POOLS, {"pools": int_array(pool_ids)}).scalars())
    if who:
        _release(connection, who)
        templates = list(connection.execute(_FORGET, {"who": who}).scalars())
        connection.execute(_NOT_FETCHED, {"templates": templates})


def _release(connection: Connection, who: list[UUID]) -> None:
    connection.execute(_LOCK_POOLS, {"who": who})
    connection.execute(_RELEASE, {"who": who})
