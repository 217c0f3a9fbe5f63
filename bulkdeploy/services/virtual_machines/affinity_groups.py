"""Affinity groups made and deleted (reference section 8.11). Who puts VMs into them is the VMs' own matter."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.owned_entities import named_entity
from bulkdeploy.services.ownership import (
    NamedOwner,
    as_found_by_id,
    lock_owner,
    named_owner_of,
    require_access,
    require_same_owner,
)
from bulkdeploy.store.accounts.owned_entities import insert_entity, lock_entity, mark_removed
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Paging
from bulkdeploy.store.virtual_machines import affinity_groups

NOUN = "affinity group"
COMMANDS = "org.apache.cloudstack.api.command.user.affinitygroup"
BY_DEDICATION = AffinityType.EXPLICIT_DEDICATION


def create_affinity_groups(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Make empty groups, each of one account or project.

    Raises:
        InvalidParameter: an owner has a group of the name, there is no such type or owner, or groups of
            that type are made by dedicating a place.
        InvalidCombination, PermissionDenied: as ``services.ownership.lock_owner``.
    """
    return [_create(connection, caller, given) for given in batch]


def _create(connection: Connection, caller: Caller, given: Arguments) -> EntityRef:
    kind, name = _affinity_type(given["type"]), given["name"]
    owner = lock_owner(connection, caller, named_owner_of(given))
    ref = insert_entity(
        connection,
        Entity.AFFINITY_GROUP,
        name=name,
        affinity_type=kind.value,
        description=given.get("description", ""),
        account_id=owner.account_id,
        domain_id=owner.domain_id,
    )
    if ref is None:
        raise InvalidParameter(
            "name", name, f"account {owner.account_name} has an affinity group of this name already"
        )
    about = Instance("AffinityGroup", ref.id, ref.uuid)
    text = f"made affinity group {name} of type {kind.value}"
    record_event(connection, caller, EventType.AFFINITY_GROUP_CREATE, text, about, owner)
    return ref


def done(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """The job that made a group; its result is the group."""
    about = Instance("AffinityGroup", ref.id, ref.uuid)
    seen = as_found_by_id(connection, caller)
    row = affinity_groups.list_affinity_groups(connection, seen, {"id": ref}, Paging(1)).rows[0]
    cmd = f"{COMMANDS}.CreateAffinityGroupCmd"
    return done_with_object(connection, caller, cmd, "affinitygroup", row, about, created=True)


def delete_affinity_group(
    connection: Connection, caller: Caller, named: NamedOwner, ref: EntityRef | None, name: str | None
) -> JobTicket:
    """Delete a group by its id, or by its name among the owner's.

    Raises:
        InvalidParameter: there is no such group or owner, or it was deleted.
        PermissionDenied: it is not the caller's to touch, or not of the owner named beside its id.
        ResourceInUse: a VM is in it, or a place is dedicated through it.
    """
    found = ref or named_entity(connection, caller, Entity.AFFINITY_GROUP, named, name or "", NOUN, "name")
    row = lock_entity(connection, found)
    if row is None:
        raise InvalidParameter("id", str(found.uuid), f"the {NOUN} was deleted")
    owner = None
    if row.account_id is not None:
        owner = require_access(connection, caller, row.account_id, f"{NOUN} {found.uuid}")
    else:
        _require_root_admin(caller, found)
    if ref is not None:
        require_same_owner(connection, caller, named, row.account_id, NOUN)
    user = affinity_groups.user_of(connection, found.id)
    if user is not None:
        raise ResourceInUse(f"Affinity group {row.name} can not be deleted: {user}")
    mark_removed(connection, found)
    about = Instance("AffinityGroup", found.id, found.uuid)
    text = f"deleted affinity group {row.name}"
    record_event(connection, caller, EventType.AFFINITY_GROUP_DELETE, text, about, owner)
    return done_with_success(connection, caller, f"{COMMANDS}.DeleteAffinityGroupCmd", about)


def _affinity_type(text: str) -> AffinityType:
    made_here = {kind.value.lower(): kind for kind in AffinityType if kind is not BY_DEDICATION}
    if text.lower() == BY_DEDICATION.value.lower():
        raise InvalidParameter(
            "type", text, "groups of this type are made by dedicating a zone, pod, cluster or host"
        )
    if text.lower() not in made_here:
        known = ", ".join(kind.value for kind in made_here.values())
        raise InvalidParameter("type", text, f"it must be one of: {known}")
    return made_here[text.lower()]


def _require_root_admin(caller: Caller, group: EntityRef) -> None:
    """Groups of a whole domain come from dedicating places, which is a root admin's matter."""
    if not caller.is_root_admin:
        raise PermissionDenied(
            f"{caller.username} does not have permission to operate with affinity group {group.uuid}"
        )
