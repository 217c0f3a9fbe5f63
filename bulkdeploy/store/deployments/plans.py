"""Plans of dry runs, stored for one day so that later calls can apply them unchanged."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, text

KEPT_HOURS = 24


def keep_plan(connection: Connection, user_id: int, fingerprint: bytes, kinds: Sequence[Mapping[str, Any]]) -> int:
    """Store the plan of a user's call, delete outdated plans, and return the id of the stored plan."""
    connection.execute(
        text(
            "DELETE FROM deployment_plans WHERE id IN (SELECT id FROM deployment_plans"
            " WHERE created < now() - make_interval(hours => :hours) FOR UPDATE SKIP LOCKED)"
        ),
        {"hours": KEPT_HOURS},
    )
    return int(
        connection.execute(
            text(
                "INSERT INTO deployment_plans (user_id, fingerprint, kinds)"
                " VALUES (:user, :fingerprint, CAST(:kinds AS jsonb)) RETURNING id"
            ),
            {
                "user": user_id,
                "fingerprint": fingerprint,
                "kinds": orjson.dumps(list(kinds), option=orjson.OPT_SERIALIZE_NUMPY).decode(),
            },
        ).scalar_one()
    )


def find_plan(connection: Connection, user_id: int, index: int) -> tuple[bytes, list[dict[str, Any]]] | None:
    """Return the fingerprint and the kinds of VMs of a user's stored plan, or None if there is no such plan."""
    row = connection.execute(
        text("SELECT fingerprint, kinds FROM deployment_plans WHERE id = :id AND user_id = :user"),
        {"id": index, "user": user_id},
    ).first()
    return None if row is None else (bytes(row.fingerprint), row.kinds)


def names_of(connection: Connection, noun: str, ids: Sequence[int]) -> dict[int, str]:
    """Return the names of hosts, clusters or storage pools by internal id, including removed ones.

    ``noun`` is ``"host"``, ``"cluster"`` or ``"storage pool"``.
    """
    table = {"host": "hosts", "cluster": "clusters", "storage pool": "storage_pools"}[noun]
    query = text(f"SELECT id, name FROM {table} WHERE id = ANY(:ids)")  # noqa: S608 - our own names
    return {row.id: row.name for row in connection.execute(query, {"ids": list(ids)})}
