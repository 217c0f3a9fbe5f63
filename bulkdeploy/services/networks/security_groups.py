"""Operations on security groups: create, rename and delete. Their rules are in ``security_group_rules``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.live_entities import deleted_events
from bulkdeploy.services.owned_entities import lock_all_own
from bulkdeploy.services.ownership import (
    NO_OWNER,
    NamedOwner,
    as_found_by_id,
    lock_owners,
    require_same_owner,
)
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_event, record_events
from bulkdeploy.store.networks import security_groups
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.live_rows import NameTaken, change_row, insert_rows, own_uuid, remove_rows

NOUN, KIND = "security group", "SecurityGroup"
DEFAULT = "default"


def create_security_groups(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create security groups without rules and return them.

    Raises:
        InvalidParameter: an owner already has a group with the name, or there is no such owner.
        InvalidCombination, PermissionDenied: under the same conditions as ``services.ownership.lock_owner``.
    """
    owners = lock_owners(connection, caller, batch)
    rows = [
        {
            **own_uuid(given),
            "name": given["name"],
            "description": given.get("description", ""),
            "account_id": owner.account_id,
        }
        for given, owner in zip(batch, owners, strict=True)
    ]
    with _unique(batch[0]["name"], owners[0]):
        made = insert_rows(connection, Entity.SECURITY_GROUP, rows)
    happened = (
        Happened(EventType.SECURITY_GROUP_CREATE, f"made security group {ref.name}", group_reference(ref), owner)
        for ref, owner in zip(made, owners, strict=True)
    )
    record_events(connection, caller, happened)
    return made


def update_security_groups(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Rename security groups. An empty name is ignored.

    Raises:
        InvalidParameter: one of the groups was deleted, is the default group, or its owner already has a group with
            the new name.
        PermissionDenied: the caller may not access one of the groups.
    """
    locked = lock_all_own(connection, caller, [ref for ref, _ in changes], NOUN)
    for (ref, given), (row, owner) in zip(changes, locked, strict=True):
        name = given.get("name") or row.name
        if name == row.name:
            continue
        _check_not_default("id", str(ref.uuid), row.name)
        with _unique(name, owner):  # one by one, because two groups that swap their names conflict
            change_row(connection, ref, {"name": name})
        text = f"renamed security group {row.name} to {name}"
        record_event(connection, caller, EventType.SECURITY_GROUP_UPDATE, text, group_reference(ref), owner)


def delete_security_groups(
    connection: Connection, caller: Caller, groups: Sequence[EntityRef], named: NamedOwner = NO_OWNER
) -> None:
    """Delete security groups with their rules.

    Raises:
        InvalidParameter: one of the groups was deleted, or is a default group.
        PermissionDenied: the caller may not access one of the groups, or the named owner does not own one of them.
        ResourceInUse: a VM is in one of the groups, or a rule of another group names it.
    """
    locked = lock_all_own(connection, caller, groups, NOUN)
    owners = [owner for _, owner in locked]
    require_same_owner(connection, caller, named, [owner.account_id for owner in owners], NOUN)
    ids = [group.id for group in groups]
    users = security_groups.users_of(connection, ids)
    for group in groups:
        _check_not_default("id", str(group.uuid), group.name)
        if group.id in users:
            raise ResourceInUse(f"Security group {group.name} cannot be deleted: {users[group.id]}")
    security_groups.delete_rules(connection, ids)
    remove_rows(connection, groups)
    events = deleted_events(EventType.SECURITY_GROUP_DELETE, KIND, groups, owners)
    record_events(connection, caller, events)


def group_reference(ref: EntityRef) -> Instance:
    """Return the reference to a security group that jobs and events store."""
    return Instance(KIND, ref.id, ref.uuid)


def security_group_row(connection: Connection, caller: Caller, ref: EntityRef) -> dict[str, Any]:
    """Return the caller's row of the group in listSecurityGroups."""
    seen = as_found_by_id(connection, caller)
    return dict(security_groups.list_security_groups(connection, seen, {"id": ref}, Paging(1)).rows[0])


@contextmanager
def _unique(name: str, owner: Owner) -> Iterator[None]:
    try:
        yield
    except NameTaken as taken:
        raise InvalidParameter(
            "name",
            name,
            f"Unable to create security group, a group with name {name} already exists "
            f"for account {owner.account_name}",
        ) from taken


def _check_not_default(parameter: str, value: str, name: str) -> None:
    if name == DEFAULT:
        raise InvalidParameter(
            parameter, value, "the default security group of an account can be neither renamed nor deleted"
        )
