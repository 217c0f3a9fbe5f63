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
from bulkdeploy.services.accounts.authority import (
    AccountParameters,
    check_name,
    lock_administered,
    require_administered,
)
from bulkdeploy.services.accounts.login_attempts import Attempt, admit, count_wrong_password, forget
from bulkdeploy.services.passwords import hash_password, password_matches
from bulkdeploy.services.system import Cipher, System
from bulkdeploy.store.accounts import users
from bulkdeploy.store.accounts.accounts import lock_account
from bulkdeploy.store.accounts.domains import lock_domain
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.password_locks import password_hash_of
from bulkdeploy.store.jobs.events import record_event

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
    """The columns of a new user; hashing the password takes its time, so it is done before the transaction.

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
    connection: Connection, caller: Caller, apis: Apis, asked: AccountParameters, user: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Add a prepared user to an account, and answer the user.

    Raises:
        InvalidParameter: no such account, a name that is taken.
        PermissionDenied: the account is not the caller's to administer.
    """
    owner, row = lock_administered(connection, caller, asked, apis)
    user_id = add_user(connection, row.id, owner.domain_id, user)
    text = f"created user {user['username']} of account {owner.account_name}"
    record_event(connection, caller, EventType.USER_CREATE, text)
    return users.read_user(connection, caller, user_id)


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    """What hashing tells about a change of a user, before its transaction.

    Attributes:
        password_hash: of the new password; None: it stays.
        needs_current: whether the new password needs the current one.
        proven_hash: the stored hash that the current password given belongs to; None: to none.
    """

    password_hash: str | None = None
    needs_current: bool = False
    proven_hash: str | None = None


def prepare_update(
    system: System,
    connection: Connection,
    caller: Caller,
    apis: Apis,
    ref: EntityRef,
    arguments: Mapping[str, Any],
) -> PreparedUpdate:
    """Hash the new password, and see whether the current one is right where it is needed.

    Nobody changes the own password without the current one, and who is no admin nobody's of the account.

    Raises:
        InvalidParameter: a blank password, or the current one is needed and not given.
        PermissionDenied: the user is not the caller's to change.
        LoginDelayed: too many wrong passwords were given before.
    """
    if "password" not in arguments:
        return PreparedUpdate()
    if ref.id != caller.user_id and caller.role_type is not RoleType.USER:
        return PreparedUpdate(_hashed(arguments["password"]))
    owner = _require_administered_user(connection, caller, apis, ref)
    current = arguments.get("currentpassword")
    if current is None:
        raise InvalidParameter("currentpassword", "", "to change this password the current one must be given")
    admit(system, Attempt(owner.domain_id, ref.name))
    stored = password_hash_of(connection, ref.id)
    proven = stored if password_matches(current, stored) else None
    return PreparedUpdate(_hashed(arguments["password"]), needs_current=True, proven_hash=proven)


def update_user(
    connection: Connection,
    cipher: Cipher,
    caller: Caller,
    apis: Apis,
    ref: EntityRef,
    arguments: Mapping[str, Any],
    prepared: PreparedUpdate,
) -> Mapping[str, Any] | InvalidParameter:
    """Change a user's name, names, address, time zone, password or keys, and answer the user.

    A wrong current password is counted like a failed login, and so answered as an error that undoes nothing. A
    changed password ends the user's sessions.

    Raises:
        InvalidParameter: a name that is taken, an API key of somebody else.
        PermissionDenied: the user is not the caller's to change.
    """
    columns = {
        name: arguments[name] for name in ("firstname", "lastname", "email", "username") if name in arguments
    }
    if "timezone" in arguments:
        columns["timezone"] = _time_zone(arguments["timezone"])
    if "username" in columns:
        check_name("username", columns["username"])
    owner, user = lock_administered_user(connection, caller, apis, ref)
    if prepared.needs_current and (prepared.proven_hash is None or prepared.proven_hash != user.password_hash):
        count_wrong_password(connection, caller, user.id, user.username)
        return InvalidParameter("currentpassword", "(not shown)", "it is not the current password")
    name = columns.get("username", user.username)
    if name.lower() != user.username.lower():
        _require_free(connection, name, owner.domain_id)
    if prepared.password_hash is not None:
        columns |= {"password_hash": prepared.password_hash, "failed_logins": 0}
        forget(connection, owner.domain_id, user.username)
        users.end_sessions(connection, user.id)
    users.update_user(connection, user.id, columns)
    if "userapikey" in arguments:
        _set_keys(connection, cipher, user.id, arguments["userapikey"], arguments["usersecretkey"])
    record_event(connection, caller, EventType.USER_UPDATE, f"updated user {user.username}")
    return users.read_user(connection, caller, user.id)


def delete_user(connection: Connection, caller: Caller, apis: Apis, ref: EntityRef) -> None:
    """Delete a user with keys and sessions; what the account owns stays.

    Raises:
        InvalidParameter: the user came with the installation, or is the caller.
        PermissionDenied: it is not the caller's to delete.
    """
    _, user = lock_administered_user(connection, caller, apis, ref)
    require_other(caller, user, "delete")
    users.remove_user(connection, user.id)
    record_event(connection, caller, EventType.USER_DELETE, f"deleted user {user.username}")


def register_user_keys(
    connection: Connection, cipher: Cipher, caller: Caller, apis: Apis, ref: EntityRef
) -> Mapping[str, Any]:
    """Give a user new keys, and answer them; all earlier ones are void from now on.

    Raises:
        InvalidParameter, PermissionDenied: the user is not the caller's to administer.
    """
    api_key, secret_key = random_text(KEY_BYTES), random_text(KEY_BYTES)
    _, user = lock_administered_user(connection, caller, apis, ref)
    _set_keys(connection, cipher, user.id, api_key, secret_key)
    record_event(connection, caller, EventType.USER_KEYS, f"gave new keys to user {user.username}")
    return {"apikey": api_key, "secretkey": secret_key}


def get_user_keys(
    connection: Connection, cipher: Cipher, caller: Caller, apis: Apis, ref: EntityRef
) -> Mapping[str, Any]:
    """The keys that a user was given last; nothing where there are none.

    Raises:
        InvalidParameter, PermissionDenied: the user is not the caller's to administer.
    """
    _require_administered_user(connection, caller, apis, ref)
    keys = users.newest_keys(connection, ref.id)
    return {} if keys is None else {"apikey": keys[0], "secretkey": cipher.decrypt(keys[1])}


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


def _set_keys(connection: Connection, cipher: Cipher, user_id: int, api_key: str, secret_key: str) -> None:
    holder = users.holder_of_key(connection, api_key)
    if holder not in (None, user_id):
        raise InvalidParameter("userapikey", "(not shown)", "it is taken; let registerUserKeys choose one")
    users.replace_keys(connection, user_id, api_key, cipher.encrypt(secret_key))


def _hashed(password: str) -> str:
    if not password.strip():
        raise InvalidParameter("password", "", "it must not be blank")
    return hash_password(password)


def _time_zone(name: str | None) -> str | None:
    try:
        return None if not name else str(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidParameter("timezone", name, "it should be a time zone such as Europe/Berlin or UTC") from None
