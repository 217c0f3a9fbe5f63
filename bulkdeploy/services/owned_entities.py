"""Locks on entities that accounts own. The entity must exist and the caller must be permitted to use it."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.services.ownership import NamedOwner, require_all_access, resolve_owner
from bulkdeploy.store.accounts.owned_entities import find_by_name, lock_owned_rows


def lock_own(
    connection: Connection, caller: Caller, ref: EntityRef, noun: str, parameter: str = "id"
) -> tuple[Row[Any], Owner]:
    """Lock an entity that the caller may use until the end of the transaction, and return its row and its owner.

    ``noun`` describes the entity in error messages.

    Raises:
        InvalidParameter: the entity was deleted.
        PermissionDenied: the caller may not access the entity.
    """
    ((row, owner),) = lock_all_own(connection, caller, [ref], noun, parameter)
    return row, owner


def lock_all_own(
    connection: Connection, caller: Caller, refs: Sequence[EntityRef], noun: str, parameter: str = "id"
) -> list[tuple[Row[Any], Owner]]:
    """Lock several entities of one kind as ``lock_own`` does, and return their rows and owners in order.

    Duplicates are allowed.
    """
    named = {f"{noun} {ref.uuid}": ref for ref in refs}
    locked = dict(zip(named.values(), lock_named(connection, caller, named, noun, parameter), strict=True))
    return [locked[ref] for ref in refs]


def lock_named(
    connection: Connection, caller: Caller, refs: Mapping[str, EntityRef], noun: str, parameter: str = "id"
) -> list[tuple[Row[Any], Owner]]:
    """Lock entities as ``lock_all_own`` does, with the keys of ``refs`` as their names in permission errors.

    This is for callers who named another object, such as a VM, and must not learn more about the entity.
    """
    rows = lock_owned_rows(connection, list(refs.values()))
    for ref in refs.values():
        if ref.id not in rows:
            raise InvalidParameter(parameter, str(ref.uuid), f"the {noun} was deleted")
    owners = require_all_access(connection, caller, {what: rows[ref.id].account_id for what, ref in refs.items()})
    return [(rows[ref.id], owners[what]) for what, ref in refs.items()]


def named_entity(
    connection: Connection, caller: Caller, entity: Entity, named: NamedOwner, name: str, noun: str, parameter: str
) -> EntityRef:
    """Return the entity with this name among the entities of the owner.

    Raises:
        InvalidParameter: the owner has no entity with this name, or there is no such owner.
        PermissionDenied: the caller may not act for that owner.
    """
    owner = resolve_owner(connection, caller, named.account, named.domain_id, named.project_id)
    ref = find_by_name(connection, entity, owner.account_id, name)
    if ref is None:
        raise InvalidParameter(
            parameter, name, f"Unable to find {noun} by name {name} among those of account {owner.account_name}"
        )
    return ref
