"""Operations on affinity groups: create and delete. The calls of VMs set the groups of a VM."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import deleted_events, lock_entities, subject
from bulkdeploy.services.ownership import (
    NO_OWNER,
    NamedOwner,
    as_found_by_id,
    lock_owners,
    require_all_access,
    require_same_owner,
)
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.live_rows import NameTaken, insert_rows, own_uuid, remove_rows
from bulkdeploy.store.virtual_machines import affinity_groups

NOUN, KIND = "affinity group", "AffinityGroup"
COMMANDS = "org.apache.cloudstack.api.command.user.affinitygroup"
BY_DEDICATION = AffinityType.EXPLICIT_DEDICATION


def create_affinity_groups(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create affinity groups without VMs, each owned by one account or project.

    Raises:
        InvalidParameter: an owner already has a group with the name, there is no such type or owner, or only
            dedications create groups of this type.
        InvalidCombination, PermissionDenied: under the same conditions as ``services.ownership.lock_owner``.
    """
    kinds = [_affinity_type(given["type"]).value for given in batch]
    owners = lock_owners(connection, caller, batch)
    rows = [
        {
            **own_uuid(given),
            "name": given["name"],
            "affinity_type": kind,
            "description": given.get("description", ""),
            "account_id": owner.account_id,
            "domain_id": owner.domain_id,
        }
        for given, kind, owner in zip(batch, kinds, owners, strict=True)
    ]
    try:
        made = insert_rows(connection, Entity.AFFINITY_GROUP, rows)
    except NameTaken as taken:
        rule = f"account {owners[0].account_name} has an affinity group of this name already"
        raise InvalidParameter("name", batch[0]["name"], rule) from taken
    texts = (f"made affinity group {row['name']} of type {row['affinity_type']}" for row in rows)
    happened = (
        Happened(EventType.AFFINITY_GROUP_CREATE, text, subject(KIND, ref), owner)
        for text, ref, owner in zip(texts, made, owners, strict=True)
    )
    record_events(connection, caller, happened)
    return made


def finished_group_job(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Return the finished job of a call that created an affinity group. Its result is the group."""
    about = subject(KIND, ref)
    seen = as_found_by_id(connection, caller)
    row = affinity_groups.list_affinity_groups(connection, seen, {"id": ref}, Paging(1)).rows[0]
    cmd = f"{COMMANDS}.CreateAffinityGroupCmd"
    return done_with_object(connection, caller, cmd, "affinitygroup", row, about, created=True)


def delete_affinity_groups(
    connection: Connection, caller: Caller, groups: Sequence[EntityRef], named: NamedOwner = NO_OWNER
) -> None:
    """Delete affinity groups. Their VMs stay on their hosts and are removed from the groups.

    Raises:
        InvalidParameter: one of the groups was deleted.
        PermissionDenied: the caller may not access one of the groups, or the named owner does not own one of them.
        ResourceInUse: a zone, pod, cluster or host is dedicated by one of the groups.
    """
    rows = lock_entities(connection, groups)
    account_ids = [rows[group.id]["account_id"] for group in groups]
    of_accounts = {}
    for group, account_id in zip(groups, account_ids, strict=True):
        if account_id is None:
            _require_root_admin(caller, group)
        else:
            of_accounts[f"{NOUN} {group.uuid}"] = account_id
    owners = require_all_access(connection, caller, of_accounts)
    require_same_owner(connection, caller, named, account_ids, NOUN)
    users = affinity_groups.users_of(connection, [group.id for group in groups])
    for group in groups:
        if group.id in users:
            raise ResourceInUse(f"Affinity group {group.name} cannot be deleted: {users[group.id]}")
    affinity_groups.remove_members(connection, [group.id for group in groups])
    remove_rows(connection, groups)
    holders = [owners.get(f"{NOUN} {group.uuid}") for group in groups]
    record_events(connection, caller, deleted_events(EventType.AFFINITY_GROUP_DELETE, KIND, groups, holders))


def deleted(connection: Connection, caller: Caller, group: EntityRef) -> JobTicket:
    """Return the finished job of a call that deleted an affinity group."""
    return done_with_success(connection, caller, f"{COMMANDS}.DeleteAffinityGroupCmd", subject(KIND, group))


def _affinity_type(text: str) -> AffinityType:
    made_here = {kind.value.lower(): kind for kind in AffinityType if kind is not BY_DEDICATION}
    if text.lower() == BY_DEDICATION.value.lower():
        raise InvalidParameter(
            "type", text, "groups of this type are created by dedicating a zone, pod, cluster or host"
        )
    if text.lower() not in made_here:
        known = ", ".join(kind.value for kind in made_here.values())
        raise InvalidParameter("type", text, f"it must be one of: {known}")
    return made_here[text.lower()]


def _require_root_admin(caller: Caller, group: EntityRef) -> None:
    """Raise PermissionDenied unless the caller is a root admin.

    Affinity groups of a domain belong to dedicated zones, pods, clusters and hosts.
    """
    if not caller.is_root_admin:
        raise PermissionDenied(
            f"{caller.username} does not have permission to operate with affinity group {group.uuid}"
        )
