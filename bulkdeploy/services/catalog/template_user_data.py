"""Links from templates and ISOs to registered user data, which their VMs receive."""

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.deployments.deployment import UserDataPolicy
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.services.catalog.templates import Kind, template_reference
from bulkdeploy.services.owned_entities import lock_own
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.rows.live_rows import change_row


def link_user_data(
    connection: Connection,
    caller: Caller,
    kind: Kind,
    ref: EntityRef,
    user_data: EntityRef | None,
    policy: UserDataPolicy,
) -> None:
    """Link registered user data to a template or ISO. The link replaces an earlier link.

    If ``user_data`` is None, an existing link is removed. Existing VMs are not changed.

    Raises:
        InvalidParameter: the template, the ISO or the user data was deleted.
        PermissionDenied: the caller may not access one of them.
    """
    row, owner = lock_own(connection, caller, ref, kind.noun)
    if user_data is None:
        change_row(connection, ref, {"user_data_id": None, "user_data_policy": None})
        text = f"{kind.noun} {row.name} has no user data any more"
    else:
        lock_own(connection, caller, user_data, "user data", "userdataid")
        change_row(connection, ref, {"user_data_id": user_data.id, "user_data_policy": policy.value})
        text = f"{kind.noun} {row.name} has user data {user_data.name}"
    record_event(connection, caller, kind.updated, text, template_reference(kind, ref), owner)
