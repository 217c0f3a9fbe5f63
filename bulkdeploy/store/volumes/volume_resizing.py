"""The claim of a volume on its pool when its size changes, in the caller's transaction."""

from uuid import UUID

from sqlalchemy import Connection, text

_RESIZE_POOL_CLAIM = text(
    "WITH changed AS (UPDATE storage_pools p SET allocated_bytes = allocated_bytes + :size - x.size_bytes"
    "   FROM storage_claims x WHERE x.consumer = :who AND p.id = x.pool_id AND (:size <= x.size_bytes"
    "   OR allocated_bytes + :size - x.size_bytes <= :limit AND p.state = 'Up') RETURNING p.id)"
    " UPDATE storage_claims x SET size_bytes = :size FROM changed WHERE x.consumer = :who"
)


def resize_pool_claim(connection: Connection, volume: UUID, size_bytes: int, *, limit: int) -> bool:
    """Change the size that a volume claims in its pool.

    ``limit`` is the number of bytes that may be claimed in the pool.

    Returns False if the pool has too little free capacity.
    """
    who = {"who": volume}
    connection.execute(
        text(
            "SELECT FROM storage_pools WHERE id = (SELECT pool_id FROM storage_claims WHERE consumer = :who)"
            " FOR UPDATE"
        ),
        who,
    )
    changed = connection.execute(_RESIZE_POOL_CLAIM, {**who, "size": size_bytes, "limit": limit})
    return changed.rowcount == 1
