"""Users: made, changed, deleted, and given keys (reference section 8.15)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Apis, Caller, Owner, RoleType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.random_texts import random_text
from bulkdeploy.services.authority import AccountParameters, check_name, lock_administered, require_administered
from bulkdeploy.services.passwords import hash_password, password_matches
from bulkdeploy.services.system import System
from bulkdeploy.store import users
from bulkdeploy.store.accounts import lock_account
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.domains import lock_domain
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.owners import owners_by_id
from bulkdeploy.store.sessions import count_failed_login

KEY_BYTES = 64
"""Gives keys of 86 base64url characters, as CloudStack's are (reference section 2.3)."""


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user to make, as asked for."""

    username: str
    password: str
    firstname: str
    lastname: str
    email: str
    timezone: str | None


def prepare_user(asked: NewUser) -> dict[str, Any]:
    """The columns of a new user; hashing the password takes its time, so it is done outside of transactions.

    Raises:
        InvalidParameter: a name that is not possible, a blank password, an unknown time zone.
    """
    check_name("username", asked.username)
    return {
        "username": asked.username,
        "password_hash": _hashed(asked.password),
        "firstname": asked.firstname,
        "lastname": asked.lastname,
        "email": asked.email,
        "timezone": _time_zone(asked.timezone),
    }


def add_user(connection: Connection, account_id: int, domain_id: int, columns: Mapping[str, Any]) -> int:
    """Add a prepared user to an account whose domain is locked; its id.

    Raises:
        InvalidParameter: the domain has a user of this name: people log in by name and domain.
    """
    _require_free(connection, columns["username"], domain_id)
    return users.insert_user(connection, account_id, columns)


def create_user(
    system: System, caller: Caller, apis: Apis, asked: AccountParameters, user: NewUser
) -> Mapping[str, Any]:
    """Add a user to an account, and answer the user.

    Raises:
        InvalidParameter: no such account, a name that is taken or not possible.
        PermissionDenied: the account is not the caller's to administer.
    """
    columns = prepare_user(user)

    def work(connection: Connection) -> Mapping[str, Any]:
        owner, row = lock_administered(connection, caller, asked, apis)
        user_id = add_user(connection, row.id, owner.domain_id, columns)
        text = f"created user {user.username} of account {owner.account_name}"
        record_event(connection, caller, EventType.USER_CREATE, text)
        return users.read_user(connection, caller, user_id)

    return run_transaction(system.engine, work)


def update_user(
    system: System, caller: Caller, apis: Apis, ref: EntityRef, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Change a user's name, names, address, time zone, password or keys, and answer the user.

    Nobody changes the own password without the current one, and who is no admin nobody's of the account; wrong ones
    count like failed logins. A changed password ends the user's sessions.

    Raises:
        InvalidParameter: a name that is taken, a wrong current password, an API key of somebody else.
        PermissionDenied: the user is not the caller's to change.
    """
    columns = {
        name: arguments[name] for name in ("firstname", "lastname", "email", "username") if name in arguments
    }
    if "timezone" in arguments:
        columns["timezone"] = _time_zone(arguments["timezone"])
    if "username" in columns:
        check_name("username", columns["username"])
    if "password" in arguments:
        columns["password_hash"] = _hashed(arguments["password"])
        if ref.id == caller.user_id or caller.role_type is RoleType.USER:
            _check_current_password(system, caller, apis, ref, arguments.get("currentpassword"))

    def work(connection: Connection) -> Mapping[str, Any]:
        owner, user = lock_administered_user(connection, caller, apis, ref)
        name = columns.get("username", user.username)
        if name.lower() != user.username.lower():
            _require_free(connection, name, owner.domain_id)
        users.update_user(connection, user.id, columns)
        if "password_hash" in columns:
            users.end_sessions(connection, user.id)
        if "userapikey" in arguments:
            _set_keys(system, connection, user.id, arguments["userapikey"], arguments["usersecretkey"])
        record_event(connection, caller, EventType.USER_UPDATE, f"updated user {user.username}")
        return users.read_user(connection, caller, user.id)

    return run_transaction(system.engine, work)


def delete_user(system: System, caller: Caller, apis: Apis, ref: EntityRef) -> None:
    """Delete a user with keys and sessions; what the account owns stays.

    Raises:
        InvalidParameter: the user came with the installation, or is the caller.
        PermissionDenied: it is not the caller's to delete.
    """

    def work(connection: Connection) -> None:
        _, user = lock_administered_user(connection, caller, apis, ref)
        require_other(caller, user, "delete")
        users.remove_user(connection, user.id)
        record_event(connection, caller, EventType.USER_DELETE, f"deleted user {user.username}")

    run_transaction(system.engine, work)


def register_user_keys(system: System, caller: Caller, apis: Apis, ref: EntityRef) -> Mapping[str, Any]:
    """Give a user new keys, and answer them; all earlier ones are void from now on.

    Raises:
        InvalidParameter, PermissionDenied: the user is not the caller's to administer.
    """
    api_key, secret_key = random_text(KEY_BYTES), random_text(KEY_BYTES)

    def work(connection: Connection) -> None:
        _, user = lock_administered_user(connection, caller, apis, ref)
        _set_keys(system, connection, user.id, api_key, secret_key)
        record_event(connection, caller, EventType.USER_KEYS, f"gave new keys to user {user.username}")

    run_transaction(system.engine, work)
    return {"apikey": api_key, "secretkey": secret_key}


def get_user_keys(
    system: System, connection: Connection, caller: Caller, apis: Apis, ref: EntityRef
) -> Mapping[str, Any]:
    """The keys that a user was given last; nothing where there are none.

    Raises:
        InvalidParameter, PermissionDenied: the user is not the caller's to administer.
    """
    _require_administered_user(connection, caller, apis, ref)
    keys = users.newest_keys(connection, ref.id)
    return {} if keys is None else {"apikey": keys[0], "secretkey": system.cipher.decrypt(keys[1])}


def lock_administered_user(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef
) -> tuple[Owner, Row[Any]]:
    """The user, locked, and the owner of its account: the caller, one of its account, or one it administers.

    Raises:
        InvalidParameter: the user was deleted, or is the one that the service acts as.
        PermissionDenied: it is not the caller's to administer.
    """
    owner = _require_administered_user(connection, caller, apis, ref)
    lock_domain(connection, owner.domain_id)
    account = lock_account(connection, owner.account_id)
    user = users.lock_user(connection, ref.id)
    if user is None or account is None:
        raise InvalidParameter("id", str(ref.uuid), "the user was deleted")
    return owner, user


def _require_administered_user(connection: Connection, caller: Caller, apis: Apis, ref: EntityRef) -> Owner:
    place = users.account_of(connection, ref.id)
    if place is None or ref.removed:
        raise InvalidParameter("id", str(ref.uuid), "the user was deleted")
    if ref.id == users.SYSTEM_USER_ID:
        raise InvalidParameter("id", str(ref.uuid), "it is the user that the service acts as")
    account_id, role_id = place
    owner = owners_by_id(connection, [account_id])[account_id]
    require_administered(connection, caller, owner, role_id, apis, f"user {ref.uuid}")
    return owner


def require_other(caller: Caller, user: Row[Any], action: str) -> None:
    """Nobody deletes, locks or disables itself, nor a user that came with the installation.

    Raises:
        InvalidParameter: the user is one of these.
    """
    if user.is_default:
        raise InvalidParameter("id", str(user.uuid), f"nobody can {action} a user that came with the installation")
    if user.id == caller.user_id:
        raise InvalidParameter("id", str(user.uuid), f"nobody can {action} itself")


def _require_free(connection: Connection, username: str, domain_id: int) -> None:
    if users.is_name_taken(connection, username, domain_id):
        raise InvalidParameter("username", username, "the domain has a user of this name already")


def _set_keys(system: System, connection: Connection, user_id: int, api_key: str, secret_key: str) -> None:
    holder = users.holder_of_key(connection, api_key)
    if holder not in (None, user_id):
        raise InvalidParameter("userapikey", "(not shown)", "it is taken; let registerUserKeys choose one")
    users.replace_keys(connection, user_id, api_key, system.cipher.encrypt(secret_key))


def _check_current_password(
    system: System, caller: Caller, apis: Apis, ref: EntityRef, current: str | None
) -> None:
    with system.engine.begin() as connection:
        _require_administered_user(connection, caller, apis, ref)
        if current is None:
            raise InvalidParameter("currentpassword", "", "to change this password the current one must be given")
        user = users.lock_user(connection, ref.id)
        matches = password_matches(current, None if user is None else user.password_hash)
        if not matches:
            allowed = read_configuration(connection).number("incorrect.login.attempts.allowed")
            count_failed_login(connection, ref.id, allowed)
    if not matches:
        raise InvalidParameter("currentpassword", "(not shown)", "it is not the current password")


def _hashed(password: str) -> str:
    if not password.strip():
        raise InvalidParameter("password", "", "it must not be blank")
    return hash_password(password)


def _time_zone(name: str | None) -> str | None:
    try:
        return None if not name else str(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidParameter("timezone", name, "it should be a time zone such as Europe/Berlin or UTC") from None
