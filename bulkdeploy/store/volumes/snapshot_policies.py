"""Rows of snapshot policies: the list query, inserts, updates, deletes, and the policies that are due.

A transaction that writes a policy has the lock ``Lock.VOLUME`` of its volume.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.schedules.snapshot_schedules import Interval
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.resource_tags import SNAPSHOT_POLICY, add_tags
from bulkdeploy.store.rows.due_rows import due_rows, lock_due
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, id_in, keyword
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.visibility import Visibility, with_owner
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import snapshot_policies, volumes


def list_policies(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of policies of live volumes, by id."""
    policy = snapshot_policies.c
    filters: Filters = {
        "id": by_id(policy.id),
        "volumeid": by_id(policy.volume_id),
        "fordisplay": equal(policy.display),
        "keyword": keyword(policy.interval_type, volumes.c.name),
    }
    return _page(connection, filtered(_query().where(visibility.condition()), filters, arguments), paging)


def read_policy(connection: Connection, policy_id: int) -> Mapping[str, Any]:
    """Return a live policy with the same fields as in lists."""
    (row,) = _page(connection, _query().where(snapshot_policies.c.id == policy_id), Paging(1)).rows
    return row


def save_policy(connection: Connection, values: Mapping[str, Any]) -> EntityRef:
    """Insert a policy, or update the existing policy of its volume with the same interval type."""
    policy = snapshot_policies.c
    statement = upsert(snapshot_policies).values(**values)
    changed = {name: value for name, value in values.items() if name not in ("volume_id", "interval_type")}
    saved = statement.on_conflict_do_update(
        index_elements=["volume_id", "interval_type"],
        index_where=policy.removed.is_(None),
        set_={**changed, "retry_at": None},
    )
    row = connection.execute(saved.returning(policy.id, policy.uuid, policy.interval_type)).one()
    return EntityRef(Entity.SNAPSHOT_POLICY, row.id, row.uuid, row.interval_type)


def live_policies(connection: Connection, policy_ids: Collection[int]) -> Sequence[Row[Any]]:
    """Return the rows of the live policies with these ids, ordered by id. Other ids are omitted."""
    policy = snapshot_policies.c
    query = select(snapshot_policies).where(id_in(policy.id, policy_ids), policy.removed.is_(None))
    return connection.execute(query.order_by(policy.id)).all()


def update_policy(connection: Connection, policy_id: int, values: Mapping[str, Any]) -> None:
    """Update columns of a policy."""
    if values:
        statement = update(snapshot_policies).where(snapshot_policies.c.id == policy_id)
        connection.execute(statement.values(**values))


def remove_policies(connection: Connection, policy_ids: Collection[int]) -> None:
    """Mark policies as removed. Their snapshots are kept."""
    statement = update(snapshot_policies).where(id_in(snapshot_policies.c.id, policy_ids))
    connection.execute(statement.values(removed=func.now()))


def due_policies(connection: Connection, most: int) -> list[tuple[Any, ...]]:
    """Return the ids of policies that are due and of their volumes, the oldest first."""
    policy = snapshot_policies.c
    return due_rows(connection, (policy.id, policy.volume_id), _due_at(), _is_live(), most)


def lock_due_policy(connection: Connection, policy_id: int) -> Row[Any] | None:
    """Lock a policy and return its row with the database's time as ``now``, or None if it is not due."""
    return lock_due(connection, snapshot_policies, policy_id, _due_at(), _is_live())


def _due_at() -> ColumnElement[datetime]:
    return func.coalesce(snapshot_policies.c.retry_at, snapshot_policies.c.next_run)


def _is_live() -> ColumnElement[bool]:
    return and_(snapshot_policies.c.removed.is_(None), snapshot_policies.c.display)


_SURPLUS = text(
    "SELECT id, uuid, display_name FROM (SELECT s.id, s.uuid, s.display_name, s.vm_id, p.max_snapshots,"
    "   row_number() OVER (PARTITION BY p.id ORDER BY s.id DESC) AS place"
    "   FROM vm_snapshots s JOIN snapshot_policies p ON p.id = s.policy_id AND p.removed IS NULL"
    "   WHERE s.policy_id IS NOT NULL AND s.removed IS NULL AND s.state = 'Ready') kept"
    " WHERE place > max_snapshots AND NOT EXISTS (SELECT FROM vm_snapshots w WHERE w.vm_id = kept.vm_id"
    "   AND w.removed IS NULL AND w.state IN ('Creating', 'Reverting', 'Expunging'))"
    " ORDER BY id LIMIT :most"
)


def surplus_snapshots(connection: Connection, most: int) -> list[EntityRef]:
    """Return at most ``most`` snapshots in excess of the number that their policies keep, the oldest first.

    Snapshots of VMs that have another snapshot with an unfinished job are omitted.
    """
    rows = connection.execute(_SURPLUS, {"most": most})
    return [EntityRef(Entity.SNAPSHOT, row.id, row.uuid, row.display_name) for row in rows]


_VOLUMES = text(
    "SELECT DISTINCT volume_id FROM snapshot_policies WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY volume_id"
)


def volumes_of_policies(connection: Connection, policy_ids: Collection[int]) -> list[int]:
    """Return the ids of the volumes of these policies, in ascending order."""
    return list(connection.execute(_VOLUMES, {"ids": int_array(policy_ids)}).scalars())


def _page(connection: Connection, query: Select[Any], paging: Paging) -> Page:
    rows, count = fetch_rows(connection, query, paging)
    add_tags(connection, SNAPSHOT_POLICY, rows)
    return Page(rows, count)


def _query() -> Select[Any]:
    policy = snapshot_policies.c
    zone = func.jsonb_build_array(func.jsonb_build_object("id", zones.c.uuid, "name", zones.c.name))
    of_volumes = snapshot_policies.join(volumes, volumes.c.id == policy.volume_id).join(
        zones, zones.c.id == volumes.c.zone_id
    )
    return (
        select(
            policy.id.label("_id"),
            policy.uuid.label("id"),
            volumes.c.uuid.label("volumeid"),
            volumes.c.name.label("volumename"),
            policy.schedule,
            case({one.value: one.number for one in Interval}, value=policy.interval_type).label("intervaltype"),
            policy.max_snapshots.label("maxsnaps"),
            policy.time_zone.label("timezone"),
            policy.display.label("fordisplay"),
            case((policy.names_zone, zone)).label("zone"),
        )
        .select_from(with_owner(of_volumes, policy.account_id))
        .where(policy.removed.is_(None), volumes.c.removed.is_(None))
        .order_by(policy.id)
    )
