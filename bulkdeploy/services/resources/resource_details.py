"""Details that clients attach to resources. The service stores them and does not interpret them."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.jobs.done_jobs import done_with_success
from bulkdeploy.services.live_entities import lock_entity
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.resource_tags import NETWORK, SNAPSHOT, VOLUME, ZONE
from bulkdeploy.store.resources import resource_details as store

COMMANDS = "org.apache.cloudstack.api.command"
LONGEST = 255
ENTITIES: Mapping[str, Entity] = {
    VOLUME: Entity.VOLUME,
    NETWORK: Entity.NETWORK,
    SNAPSHOT: Entity.SNAPSHOT,
    ZONE: Entity.ZONE,
}
"""The kinds of resources by their types."""


def add_details(
    connection: Connection,
    caller: Caller,
    resource_type: str,
    ref: EntityRef,
    details: Mapping[str, str],
    *,
    display: bool,
) -> JobTicket:
    """Write details of a resource. Existing details with the same keys are replaced.

    Raises:
        InvalidParameter: no resource of this type has the id, or a key or a value is empty or too long, or a hidden
            detail has the key and the caller is not a root admin.
        PermissionDenied: the caller may not access the resource; only root admins may access zones.
    """
    for text in (*details, *details.values()):
        if not 0 < len(text) <= LONGEST:
            raise InvalidParameter("details", text[:40], f"keys and values have 1 to {LONGEST} characters")
    account_id = _owner(connection, caller, resource_type, ref)
    written = store.write_details(
        connection, resource_type, ref.id, account_id, details, display=display, hidden=caller.is_root_admin
    )
    for key in details:
        if key not in written:
            raise InvalidParameter("details", key, "only root admins may change the detail of this key")
    text = f"wrote details {', '.join(sorted(details))} of {resource_type} {ref.uuid}"
    record_event(connection, caller, EventType.RESOURCE_DETAILS_CREATE, text)
    return done_with_success(connection, caller, f"{COMMANDS}.user.volume.AddResourceDetailCmd")


def remove_details(
    connection: Connection, caller: Caller, resource_type: str, ref: EntityRef, key: str | None
) -> JobTicket:
    """Delete one detail of a resource, or all details if ``key`` is None. Missing details are not an error.

    Raises:
        InvalidParameter: no resource of this type has the id.
        PermissionDenied: the caller may not access the resource; only root admins may access zones.
    """
    _owner(connection, caller, resource_type, ref)
    store.delete_details(connection, resource_type, ref.id, key, hidden=caller.is_root_admin)
    text = f"removed {'details' if key is None else f'detail {key}'} of {resource_type} {ref.uuid}"
    record_event(connection, caller, EventType.RESOURCE_DETAILS_DELETE, text)
    return done_with_success(connection, caller, f"{COMMANDS}.user.volume.RemoveResourceDetailCmd")


def _owner(connection: Connection, caller: Caller, resource_type: str, ref: EntityRef) -> int:
    """Lock a resource and return the id of the account that owns it. A zone is treated as owned by the caller."""
    if ref.entity is not ENTITIES[resource_type] or ref.removed:
        raise InvalidParameter("resourceid", str(ref.uuid), f"there is no {resource_type} with this id")
    row: Mapping[str, Any] = lock_entity(connection, ref, "resourceid", shared=True)
    account_id: int | None = row.get("account_id")
    if account_id is not None:
        require_access(connection, caller, account_id, f"{resource_type} {ref.uuid}")
        return account_id
    if not caller.is_root_admin:
        raise PermissionDenied(
            f"{caller.username} does not have permission to operate with resource {resource_type}"
        )
    return caller.owner.account_id
