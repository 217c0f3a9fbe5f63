"""Operations on annotations: write, share and delete."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.compatibility import MANAGEMENT_SERVER_ID
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.live_entities import ONE, lock_entity, only_row
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.resources import annotations
from bulkdeploy.store.resources.annotations import ENTITIES, MANAGEMENT_SERVER
from bulkdeploy.store.rows.entities import SOURCES, resolve
from bulkdeploy.store.rows.live_rows import change_row, insert_row, lock_row, remove_rows

TYPES = (*ENTITIES, MANAGEMENT_SERVER)


def add_annotation(
    connection: Connection, caller: Caller, text: str, entity_type: str, entity_id: str, *, admins_only: bool
) -> EntityRef:
    """Add an annotation to an entity. A host's row shows its latest annotation.

    Raises:
        InvalidParameter: no resource of this type has the id.
        PermissionDenied: the caller may not access the resource, or it has no owner and the caller is not a root
            admin.
    """
    uuid, account_id = _annotated(connection, caller, entity_type, entity_id)
    values = {
        "annotation": text,
        "entity_type": entity_type,
        "entity_uuid": uuid,
        "account_id": account_id,
        "user_id": caller.user_id,
        "admins_only": admins_only,
    }
    ref = insert_row(connection, Entity.ANNOTATION, values)
    record_event(connection, caller, EventType.ANNOTATION_CREATE, f"annotated {entity_type} {uuid}")
    _show_latest(connection, entity_type, uuid)
    return ref


def read_annotation(connection: Connection, caller: Caller, ref: EntityRef) -> Mapping[str, Any]:
    """Return the list row of an annotation.

    Raises:
        InvalidParameter: the annotation was deleted.
        PermissionDenied: the caller may not see the annotation.
    """
    lock_entity(connection, ref)
    page = annotations.list_annotations(connection, caller, {"id": ref}, ONE)
    if not page.rows:
        raise PermissionDenied(f"{caller.username} does not have permission to operate with annotation {ref.uuid}")
    return only_row(page)


def remove_annotation(connection: Connection, caller: Caller, ref: EntityRef) -> None:
    """Delete an annotation. Only root admins and the user who wrote the annotation may delete it.

    Raises:
        InvalidParameter: the annotation was deleted already.
        PermissionDenied: the caller is neither the author nor a root admin.
    """
    row = lock_entity(connection, ref)
    if not caller.is_root_admin and row["user_id"] != caller.user_id:
        raise PermissionDenied(
            "Only administrators or entity owner users can delete annotations, "
            f"cannot remove annotation with uuid: {ref.uuid} - type: {row['entity_type']}"
        )
    remove_rows(connection, [ref])
    record_event(connection, caller, EventType.ANNOTATION_REMOVE, f"removed annotation {ref.uuid}")
    _show_latest(connection, row["entity_type"], row["entity_uuid"])


def update_visibility(connection: Connection, caller: Caller, ref: EntityRef, *, admins_only: bool) -> None:
    """Set whether only root admins see an annotation.

    Raises:
        InvalidParameter: the annotation was deleted.
    """
    lock_entity(connection, ref)
    change_row(connection, ref, {"admins_only": admins_only})
    record_event(connection, caller, EventType.ANNOTATION_UPDATE, f"changed visibility of annotation {ref.uuid}")


def _annotated(connection: Connection, caller: Caller, entity_type: str, entity_id: str) -> tuple[UUID, int | None]:
    """Return the id of a live resource and the account that owns the resource, if any."""
    if entity_type == MANAGEMENT_SERVER:
        row: Mapping[str, Any] | None = {"uuid": UUID(entity_id)} if entity_id == MANAGEMENT_SERVER_ID else None
    else:
        found = resolve(connection, caller, (ENTITIES[entity_type],), [entity_id]) if _is_id(entity_id) else {}
        row = lock_row(connection, found[entity_id], shared=True) if found else None
    if row is None:
        raise InvalidParameter("entityid", entity_id, f"there is no {entity_type} with this id")
    uuid, account_id = row["uuid"], row.get("account_id")
    what = f"{entity_type} {uuid}"
    if account_id is not None:
        require_access(connection, caller, account_id, what)
    elif not caller.is_root_admin:
        raise PermissionDenied(f"{caller.username} does not have permission to operate with resource {what}")
    return uuid, account_id


def _is_id(written: str) -> bool:
    try:
        UUID(written)
    except ValueError:
        return False
    return "-" in written


def _show_latest(connection: Connection, entity_type: str, uuid: UUID) -> None:
    """Copy the latest annotation of a host to the host's row. Other entities are not changed."""
    if ENTITIES.get(entity_type) is Entity.HOST:
        annotations.show_latest(connection, SOURCES[Entity.HOST].table, entity_type, uuid)
