"""Operations on user data that accounts register under a name."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.deployments.user_data import check_user_data
from bulkdeploy.services.live_entities import deleted_events
from bulkdeploy.services.owned_entities import lock_all_own
from bulkdeploy.services.ownership import NO_OWNER, NamedOwner, lock_owners, require_access, require_same_owner
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import NameTaken, change_rows, insert_rows, remove_rows
from bulkdeploy.store.virtual_machines import user_data

NOUN, KIND = "user data", "UserData"


def register_user_data(
    connection: Connection, caller: Caller, batch: Sequence[Arguments], *, method: str = "POST"
) -> list[EntityRef]:
    """Register user data under names. ``params`` are the names of its variables, separated by commas.

    Raises:
        InvalidParameter: data violates a rule of user data, an owner already has user data with this name, or there
            is no such owner.
        InvalidCombination, PermissionDenied: under the same conditions as ``services.ownership.lock_owner``.
    """
    contents = _columns(connection, batch, method)
    owners = lock_owners(connection, caller, batch)
    rows = [
        {"name": given["name"], "account_id": owner.account_id, "params": None, **columns}
        for given, owner, columns in zip(batch, owners, contents, strict=True)
    ]
    try:
        made = insert_rows(connection, Entity.USER_DATA, rows)
    except NameTaken as taken:
        name, owner = batch[0]["name"], owners[0]
        rule = f"user data with name {name} already exists for account {owner.account_name}"
        raise InvalidParameter("name", name, rule) from taken
    record_events(
        connection,
        caller,
        (
            Happened(
                EventType.USER_DATA_REGISTER, f"registered user data {ref.name}", _user_data_reference(ref), owner
            )
            for ref, owner in zip(made, owners, strict=True)
        ),
    )
    return made


def replace_user_data(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Replace the contents of registered user data. VMs that were deployed with the old contents keep them.

    Raises:
        InvalidParameter: data violates a rule of user data, or the registered user data was deleted.
        PermissionDenied: the caller may not access the user data.
    """
    refs = [ref for ref, _ in changes]
    locked = lock_all_own(connection, caller, refs, NOUN)
    columns = _columns(connection, [given for _, given in changes], "POST")
    change_rows(connection, zip(refs, columns, strict=True))
    happened = (
        Happened(EventType.USER_DATA_REGISTER, f"replaced user data {row.name}", _user_data_reference(ref), owner)
        for ref, (row, owner) in zip(refs, locked, strict=True)
    )
    record_events(connection, caller, happened)


def _columns(connection: Connection, batch: Sequence[Arguments], method: str) -> list[dict[str, Any]]:
    most = read_configuration(connection).number("vm.userdata.max.length")
    found = []
    for given in batch:
        columns: dict[str, Any] = {"params": given["params"] or None} if "params" in given else {}
        if "userdata" in given:
            columns["content"] = check_user_data(given["userdata"], method=method, most=most)
        found.append(columns)
    return found


def require_user_data(connection: Connection, caller: Caller, ref: EntityRef | None) -> None:
    """Check that the caller may see this registered user data, even if it was deleted. None is accepted.

    Raises:
        PermissionDenied: the user data belongs to another account.
    """
    if ref is not None:
        _read(connection, caller, ref)


def registered_content(connection: Connection, caller: Caller, ref: EntityRef) -> str:
    """Return the content of the registered user data that ``userdataid`` names, in base64.

    Raises:
        InvalidParameter: the user data was deleted.
        PermissionDenied: the caller may not use the user data.
    """
    row = _read(connection, caller, ref)
    if row.removed is not None:
        raise InvalidParameter("userdataid", str(ref.uuid), "the user data was deleted")
    return str(row.content)


def _read(connection: Connection, caller: Caller, ref: EntityRef) -> Row[Any]:
    row = user_data.read_user_data(connection, ref.id)
    require_access(connection, caller, row.account_id, f"{NOUN} {ref.uuid}")
    return row


def delete_user_data(
    connection: Connection, caller: Caller, refs: Sequence[EntityRef], named: NamedOwner = NO_OWNER
) -> None:
    """Delete registered user data. VMs that were deployed with it keep their copy.

    Raises:
        InvalidParameter, InvalidCombination: some of the user data was deleted; or under the same conditions as
        ``services.ownership.require_same_owner``.
        PermissionDenied: the caller may not access some of the user data, or the named owner does not own it.
        ResourceInUse: some of the user data is linked to a template or ISO.
    """
    owners = [owner for _, owner in lock_all_own(connection, caller, refs, NOUN)]
    require_same_owner(connection, caller, named, [owner.account_id for owner in owners], NOUN)
    linked = user_data.templates_with(connection, [ref.id for ref in refs])
    for ref in refs:
        if ref.id in linked:
            raise ResourceInUse(f"User data {ref.name} cannot be deleted: it is linked to {linked[ref.id]}")
    remove_rows(connection, refs)
    record_events(connection, caller, deleted_events(EventType.USER_DATA_DELETE, KIND, refs, owners))


def _user_data_reference(ref: EntityRef) -> Instance:
    return Instance(KIND, ref.id, ref.uuid)
