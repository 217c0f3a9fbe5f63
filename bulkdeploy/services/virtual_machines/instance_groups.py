"""Operations on instance groups: create, rename and delete. The calls of VMs set the group of a VM."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.live_entities import deleted_events
from bulkdeploy.services.owned_entities import lock_all_own, lock_own
from bulkdeploy.services.ownership import NamedOwner, as_found_by_id, lock_owner
from bulkdeploy.store.accounts.owned_entities import insert_entity, rename_entity
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event, record_events
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.live_rows import remove_rows
from bulkdeploy.store.virtual_machines import instance_groups

NOUN, KIND = "instance group", "InstanceGroup"


def create_instance_group(
    connection: Connection, caller: Caller, named: NamedOwner, name: str
) -> Mapping[str, Any]:
    """Create an empty instance group and return its fields.

    Raises:
        InvalidParameter: the owner already has a group with this name, or there is no such owner.
        InvalidCombination, PermissionDenied: under the same conditions as ``services.ownership.lock_owner``.
    """
    owner = lock_owner(connection, caller, named)
    ref = insert_entity(connection, Entity.INSTANCE_GROUP, name=name, account_id=owner.account_id)
    if ref is None:
        raise _taken(name, owner)
    text = f"made instance group {name}"
    record_event(connection, caller, EventType.INSTANCE_GROUP_CREATE, text, _group_reference(ref), owner)
    return _row(connection, caller, ref)


def update_instance_group(
    connection: Connection, caller: Caller, ref: EntityRef, name: str | None
) -> Mapping[str, Any]:
    """Rename an instance group and return its fields.

    Raises:
        InvalidParameter: the group was deleted, or its owner already has a group with the new name.
        PermissionDenied: the caller may not access the group.
    """
    row, owner = lock_own(connection, caller, ref, NOUN)
    if name is not None and name != row.name:
        if not rename_entity(connection, ref, name):
            raise _taken(name, owner)
        text = f"renamed instance group {row.name} to {name}"
        record_event(connection, caller, EventType.INSTANCE_GROUP_UPDATE, text, _group_reference(ref), owner)
    return _row(connection, caller, ref)


def delete_instance_groups(connection: Connection, caller: Caller, groups: Sequence[EntityRef]) -> None:
    """Delete instance groups. Their VMs are not deleted and have no group afterwards.

    Raises:
        InvalidParameter: one of the groups was deleted.
        PermissionDenied: the caller may not access one of the groups.
    """
    owners = [owner for _, owner in lock_all_own(connection, caller, groups, NOUN)]
    remove_rows(connection, groups)
    instance_groups.remove_members(connection, [group.id for group in groups])
    record_events(connection, caller, deleted_events(EventType.INSTANCE_GROUP_DELETE, KIND, groups, owners))


def _group_reference(ref: EntityRef) -> Instance:
    return Instance(KIND, ref.id, ref.uuid)


def _row(connection: Connection, caller: Caller, ref: EntityRef) -> Mapping[str, Any]:
    seen = as_found_by_id(connection, caller)
    return instance_groups.list_instance_groups(connection, seen, {"id": ref}, Paging(1)).rows[0]


def _taken(name: str, owner: Owner) -> InvalidParameter:
    return InvalidParameter(
        "name", name, f"a group with name {name} already exists for account {owner.account_name}"
    )
