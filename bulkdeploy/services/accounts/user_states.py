"""Operations that enable, lock and disable users."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import AccountState, Apis, Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.accounts.login_attempts import forget
from bulkdeploy.services.accounts.users import lock_administered_user, require_other
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.store.accounts import users
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event

SHUTTING_OUT = {
    AccountState.LOCKED: ("lock", EventType.USER_LOCK),
    AccountState.DISABLED: ("disable", EventType.USER_DISABLE),
}
DISABLE_CLASS = "org.apache.cloudstack.api.command.admin.user.DisableUserCmd"


def enable_user(connection: Connection, caller: Caller, apis: Apis, ref: EntityRef) -> Mapping[str, Any]:
    """Enable a user and reset its failed logins, which unlocks its password, and return the user.

    Raises:
        InvalidParameter, PermissionDenied: the caller may not enable the user.
    """
    owner, user = lock_administered_user(connection, caller, apis, ref)
    forget(connection, owner.domain_id, user.username)
    users.update_user(connection, user.id, {"state": AccountState.ENABLED.value, "failed_logins": 0})
    record_event(connection, caller, EventType.USER_ENABLE, f"enabled user {user.username}")
    return users.read_user(connection, caller, user.id)


def lock_user(connection: Connection, caller: Caller, apis: Apis, ref: EntityRef) -> Mapping[str, Any]:
    """Lock a user with the rules and errors of ``disable_user``, and return the user."""
    user = _shut_out(connection, caller, apis, ref, AccountState.LOCKED)
    return users.read_user(connection, caller, user.id)


def disable_user(connection: Connection, caller: Caller, apis: Apis, ref: EntityRef) -> JobTicket:
    """Disable a user, and return a finished job whose result is the user.

    Raises:
        InvalidParameter: the installation created the user, or the user is the caller.
        PermissionDenied: the caller may not disable the user.
    """
    user = _shut_out(connection, caller, apis, ref, AccountState.DISABLED)
    row = users.read_user(connection, caller, user.id)
    instance = Instance("User", user.id, user.uuid)
    return done_with_object(connection, caller, DISABLE_CLASS, "user", row, instance)


def _shut_out(connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, state: AccountState) -> Row[Any]:
    _, user = lock_administered_user(connection, caller, apis, ref)
    action, event = SHUTTING_OUT[state]
    require_other(caller, user, action)
    users.update_user(connection, user.id, {"state": state.value})
    users.end_sessions(connection, [user.id])
    record_event(connection, caller, event, f"{state.value} user {user.username}")
    return user
