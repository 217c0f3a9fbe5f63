"""User data that accounts register under a name, and delete (reference section 8.12)."""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.deployments.user_data import check_user_data
from bulkdeploy.services.owned_entities import lock_own
from bulkdeploy.services.ownership import NamedOwner, as_found_by_id, lock_owner, require_access, require_same_owner
from bulkdeploy.store.accounts.owned_entities import insert_entity, mark_removed
from bulkdeploy.store.configuration.configuration import read_configuration
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Paging
from bulkdeploy.store.virtual_machines import user_data

NOUN = "user data"
VARIABLES = re.compile(r"[^,\s]+(,[^,\s]+)*")


def register_user_data(
    connection: Connection,
    caller: Caller,
    named: NamedOwner,
    name: str,
    given: str,
    params: str | None,
    *,
    method: str,
) -> Mapping[str, Any]:
    """Register user data under a name, and answer it. ``params``: names of variables in it, separated by commas.

    Raises:
        InvalidParameter: the data breaks a rule of user data, ``params`` is no list of names, the owner has
            user data of this name, or there is no such owner.
        InvalidCombination, PermissionDenied: as ``services.ownership.lock_owner``.
    """
    if params and not VARIABLES.fullmatch(params):
        raise InvalidParameter("params", params, "it should be names separated by commas, without spaces")
    most = read_configuration(connection).number("vm.userdata.max.length")
    content = check_user_data(given, method=method, most=most)
    owner = lock_owner(connection, caller, named)
    ref = insert_entity(
        connection,
        Entity.USER_DATA,
        name=name,
        account_id=owner.account_id,
        content=content,
        params=params or None,
    )
    if ref is None:
        raise InvalidParameter(
            "name", name, f"user data with name {name} already exists for account {owner.account_name}"
        )
    text = f"registered user data {name}"
    record_event(connection, caller, EventType.USER_DATA_REGISTER, text, _about(ref), owner)
    seen = as_found_by_id(connection, caller)
    return user_data.list_user_data(connection, seen, {"id": ref}, Paging(1)).rows[0]


def require_user_data(connection: Connection, caller: Caller, ref: EntityRef | None) -> None:
    """The caller may see this registered user data, if any is named; it may have been deleted.

    Raises:
        PermissionDenied: it is somebody else's.
    """
    if ref is not None:
        _read(connection, caller, ref)


def registered_content(connection: Connection, caller: Caller, ref: EntityRef) -> str:
    """What a VM gets by ``userdataid``: the registered data, base64.

    Raises:
        InvalidParameter: it was deleted.
        PermissionDenied: it is not the caller's to use.
    """
    row = _read(connection, caller, ref)
    if row.removed is not None:
        raise InvalidParameter("userdataid", str(ref.uuid), "the user data was deleted")
    return str(row.content)


def _read(connection: Connection, caller: Caller, ref: EntityRef) -> Row[Any]:
    row = user_data.read_user_data(connection, ref.id)
    require_access(connection, caller, row.account_id, f"{NOUN} {ref.uuid}")
    return row


def delete_user_data(connection: Connection, caller: Caller, named: NamedOwner, ref: EntityRef) -> None:
    """Delete registered user data; VMs that were made with it keep theirs.

    Raises:
        InvalidParameter, InvalidCombination: it was deleted; or as ``services.ownership.require_same_owner``.
        PermissionDenied: it is not the caller's to touch, or not of the owner that is named.
    """
    row, owner = lock_own(connection, caller, ref, NOUN)
    require_same_owner(connection, caller, named, owner.account_id, NOUN)
    mark_removed(connection, ref)
    text = f"deleted user data {row.name}"
    record_event(connection, caller, EventType.USER_DATA_DELETE, text, _about(ref), owner)


def _about(ref: EntityRef) -> Instance:
    return Instance("UserData", ref.id, ref.uuid)
