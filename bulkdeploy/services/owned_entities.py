"""Things that accounts own, found for a change: they exist, the caller may touch them, and nobody else does."""

from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.services.ownership import NamedOwner, require_access, resolve_owner
from bulkdeploy.store.accounts.owned_entities import find_by_name, lock_entity


def lock_own(
    connection: Connection,
    caller: Caller,
    ref: EntityRef,
    noun: str,
    parameter: str = "id",
    given: str | None = None,
) -> tuple[Row[Any], Owner]:
    """The row behind an id, locked until the end of the transaction, and its owner; ``noun`` names it in texts.

    ``given``: what the caller named, where that was something else: a refusal tells nothing more.

    Raises:
        InvalidParameter: it was deleted.
        PermissionDenied: it is not the caller's to touch.
    """
    row = lock_entity(connection, ref)
    if row is None:
        raise InvalidParameter(parameter, str(ref.uuid), f"the {noun} was deleted")
    return row, require_access(connection, caller, row.account_id, given or f"{noun} {ref.uuid}")


def named_entity(
    connection: Connection, caller: Caller, entity: Entity, named: NamedOwner, name: str, noun: str, parameter: str
) -> EntityRef:
    """The one of this name among the owner's.

    Raises:
        InvalidParameter: the owner has none of this name, or there is no such owner.
        PermissionDenied: the caller may not act for that owner.
    """
    owner = resolve_owner(connection, caller, named.account, named.domain_id, named.project_id)
    ref = find_by_name(connection, entity, owner.account_id, name)
    if ref is None:
        raise InvalidParameter(
            parameter, name, f"Unable to find {noun} by name {name} among those of account {owner.account_name}"
        )
    return ref
