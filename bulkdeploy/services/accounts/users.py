"""Operations on users and their API keys: create, update and delete (one file: one noun)."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import AccountState, Apis, Caller, Owner, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import NOT_SHOWN, InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.security.random_texts import random_text
from bulkdeploy.services.accounts.authority import (
    AccountParameters,
    lock_all_administered,
    require_administered,
)
from bulkdeploy.services.accounts.login_attempts import Attempt, admit, count_wrong_password, forget
from bulkdeploy.services.passwords import KeptPassword, hash_password, password_matches
from bulkdeploy.services.system import Cipher, System
from bulkdeploy.store.accounts import users
from bulkdeploy.store.accounts.accounts import lock_accounts
from bulkdeploy.store.accounts.domains import lock_domains
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.password_locks import password_hash_of
from bulkdeploy.store.accounts.roles import rights_of
from bulkdeploy.store.jobs.events import Happened, record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, insert_rows

NAME_TAKEN = "the domain has a user of this name already"
KEY_BYTES = 64
"""Gives keys of 86 base64url characters, as CloudStack's are (cloudstack-protocol.md 2.3)."""


def prepare_users(connection: Connection, system: System, batch: Sequence[Arguments]) -> list[Arguments]:
    """Return the given arguments of users with hashed passwords and encrypted secret keys.

    Hashing is slow, so this runs before the transaction.
    """
    del connection
    return [_with_hashed_password(system.cipher, given) for given in batch]


def create_users(connection: Connection, caller: Caller, apis: Apis, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Add users to accounts and return them. ``batch`` has the arguments that ``prepare_users`` returned.

    Raises:
        InvalidParameter: there is no such account, or a name or an API key is already used.
        PermissionDenied: the caller may not administer an account.
    """
    requested = [AccountParameters(None, given["account"], given.get("domainid")) for given in batch]
    locked = lock_all_administered(connection, caller, requested, apis)
    made = add_users(connection, [(row.id, owner.domain_id) for owner, row in locked], batch)
    pairs = zip(made, locked, strict=True)
    texts = (f"created user {user.name} of account {owner.account_name}" for user, (owner, _) in pairs)
    record_events(connection, caller, (Happened(EventType.USER_CREATE, text) for text in texts))
    return made


def add_users(
    connection: Connection, places: Sequence[tuple[int, int]], batch: Sequence[Arguments]
) -> list[EntityRef]:
    """Insert prepared users in accounts, and return the users.

    The caller has locked the accounts and their domains.

    ``places`` has the internal ids of the account and of the domain of each user.

    Raises:
        InvalidParameter: another user of the domain has the name, or another user has the API key.
    """
    wanted = [(domain_id, given["username"].lower()) for (_, domain_id), given in zip(places, batch, strict=True)]
    taken = set(users.holders_of_names(connection, wanted))
    for name, given in zip(wanted, batch, strict=True):
        if name in taken:
            raise InvalidParameter("username", given["username"], NAME_TAKEN)
        taken.add(name)
    rows = [
        {"account_id": account_id, **columns_of(users.FIELDS, given)}
        for (account_id, _), given in zip(places, batch, strict=True)
    ]
    made = insert_rows(connection, Entity.USER, rows)
    _set_keys(connection, zip(made, batch, strict=True))
    return made


def set_users(connection: Connection, caller: Caller, apis: Apis, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create users in accounts, or update users that already exist, and return all of them.

    ``batch`` has the arguments that ``prepare_users`` returned. An existing user is found by its name and account.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``create_users`` and ``update_users``.
    """
    requested = [AccountParameters(None, given["account"], given.get("domainid")) for given in batch]
    locked = lock_all_administered(connection, caller, requested, apis)
    names = [(owner.domain_id, given["username"].lower()) for (owner, _), given in zip(locked, batch, strict=True)]
    holders = users.holders_of_names(connection, names)
    found: list[EntityRef | None] = []
    for name, (_, row) in zip(names, locked, strict=True):
        account_id, user = holders.get(name, (None, None))
        found.append(user if account_id == row.id else None)
    changes = [(ref, given) for ref, given in zip(found, batch, strict=True) if ref is not None]
    if changes:
        update_users(connection, caller, apis, changes)
    new = [given for ref, given in zip(found, batch, strict=True) if ref is None]
    made = iter(create_users(connection, caller, apis, new) if new else ())
    return [next(made) if ref is None else ref for ref in found]


def read_users(connection: Connection) -> list[dict[str, Any]]:
    """Return all users in the format of zone files.

    Passwords are returned as hashes that a plain text can be compared with.
    """
    return [{**row, "password": KeptPassword(row["passwordhash"])} for row in users.read_users(connection)]


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    """The changes of a user, prepared before the transaction that writes them.

    Attributes:
        given: the values to write, prepared as by ``prepare_users``.
        needs_current: whether the current password is required for the new one.
        proven_hash: the stored hash that matched the given current password, or None if it did not match.
    """

    given: Arguments
    needs_current: bool = False
    proven_hash: str | None = None


def prepare_update(
    system: System, connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, arguments: Arguments
) -> PreparedUpdate:
    """Hash the new password of a user, and check the current password if the caller must give it.

    Callers must give the current password to change their own password. Callers who are not admins must give it to
    change any password.

    Raises:
        InvalidParameter: the current password is required and not given.
        PermissionDenied: the caller may not change the user.
        LoginDelayed: too many wrong passwords were given before.
    """
    is_free = ref.id != caller.user_id and caller.role_type is not RoleType.USER
    if "password" not in arguments or is_free:
        return PreparedUpdate(_with_hashed_password(system.cipher, arguments))
    (owner,) = _require_administered_users(connection, caller, apis, [ref])
    current = arguments.get("currentpassword")
    if current is None:
        raise InvalidParameter("currentpassword", "", "to change this password the current one must be given")
    admit(system, Attempt(owner.domain_id, ref.name))
    stored = password_hash_of(connection, ref.id)
    proven = stored if password_matches(current, stored) else None
    return PreparedUpdate(_with_hashed_password(system.cipher, arguments), needs_current=True, proven_hash=proven)


def wrong_password(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, prepared: PreparedUpdate
) -> InvalidParameter | None:
    """Return an error if the required current password of a user was wrong, or None if the update may continue.

    A wrong current password is counted like a failed login. The error is returned, not raised, because the
    transaction must commit the count.

    Raises:
        InvalidParameter, PermissionDenied: the caller may not change the user.
    """
    if not prepared.needs_current:
        return None
    _, user = lock_administered_user(connection, caller, apis, ref)
    if prepared.proven_hash is not None and prepared.proven_hash == user.password_hash:
        return None
    count_wrong_password(connection, caller, user.id, user.username)
    return InvalidParameter("currentpassword", NOT_SHOWN, "it is not the current password")


def update_users(connection: Connection, caller: Caller, apis: Apis, changes: Sequence[Change]) -> None:
    """Write prepared changes of users: names, email address, time zone, password, keys or state.

    All sessions of a user end if its password changes, or if the new state is not enabled.

    Raises:
        InvalidParameter: a name or an API key is already used, or the call would change the caller's own state.
        PermissionDenied: the caller may not change a user.
    """
    locked = lock_administered_users(connection, caller, apis, [ref for ref, _ in changes])
    written = [(ref, columns_of(users.FIELDS, given)) for ref, given in changes]
    renamed: list[tuple[int, str]] = []
    shut_out: list[int] = []
    for (owner, user), (_, columns) in zip(locked, written, strict=True):
        if (name := columns.get("username", user.username).lower()) != user.username.lower():
            renamed.append((owner.domain_id, name))
        if columns.get("password_hash", user.password_hash) != user.password_hash:
            columns["failed_logins"] = 0
            forget(connection, owner.domain_id, user.username)
            shut_out.append(user.id)
        if columns.get("state", user.state) != user.state and columns["state"] != AccountState.ENABLED:
            require_other(caller, user, "disable or lock")
            shut_out.append(user.id)
    taken = users.holders_of_names(connection, renamed) if renamed else {}
    if taken or len(set(renamed)) < len(renamed):
        raise InvalidParameter("username", next(iter(taken), renamed[0])[1], NAME_TAKEN)
    users.end_sessions(connection, shut_out)
    change_rows(connection, written)
    _set_keys(connection, changes)
    texts = (f"updated user {ref.name}" for ref, _ in changes)
    record_events(connection, caller, (Happened(EventType.USER_UPDATE, text) for text in texts))


def delete_users(connection: Connection, caller: Caller, apis: Apis, refs: Sequence[EntityRef]) -> None:
    """Delete users with their keys and sessions. Objects of their accounts are not deleted.

    Raises:
        InvalidParameter: the installation created one of the users, or one is the caller.
        PermissionDenied: the caller may not delete one of the users.
    """
    locked = [user for _, user in lock_administered_users(connection, caller, apis, refs)]
    for user in locked:
        require_other(caller, user, "delete")
    users.remove_users(connection, [user.id for user in locked])
    texts = (f"deleted user {user.username}" for user in locked)
    record_events(connection, caller, (Happened(EventType.USER_DELETE, text) for text in texts))


def move_user(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, target: AccountParameters
) -> None:
    """Move a user to another account of the same domain. The user keeps its password, keys and sessions.

    If ``target`` names an account without its domain, the account is searched in the user's domain.

    Raises:
        InvalidCombination: neither an id nor a name is given.
        InvalidParameter: the user or the account was deleted or was created by the installation, or the account is
            in another domain.
        PermissionDenied: the caller may not administer the user or the account.
    """
    (owner,) = _require_administered_users(connection, caller, apis, [ref])
    present = AccountParameters(_account_ref(owner))
    if target.account is None and target.name is not None:
        domain = EntityRef(Entity.DOMAIN, owner.domain_id, owner.domain_uuid, str(owner.domain_uuid))
        target = AccountParameters(None, target.name, domain)
    (_, _), (new, _) = lock_all_administered(connection, caller, [present, target], apis)
    user = users.lock_users(connection, [ref.id]).get(ref.id)
    if user is None or user.account_id != owner.account_id:
        raise InvalidParameter("id", str(ref.uuid), "the user was deleted or moved meanwhile")
    require_other(caller, user, "move")
    if new.domain_id != owner.domain_id:
        rule = f"the account must be in the user's domain: {new.account_name} is in another one"
        raise InvalidParameter("accountid", str(new.account_uuid), rule)
    change_rows(connection, [(ref, {"account_id": new.account_id})])
    text = f"moved user {user.username} from account {owner.account_name} to {new.account_name}"
    record_event(connection, caller, EventType.USER_MOVE, text)


def _account_ref(owner: Owner) -> EntityRef:
    return EntityRef(Entity.ACCOUNT, owner.account_id, owner.account_uuid, owner.account_name)


def register_user_keys(
    connection: Connection, cipher: Cipher, caller: Caller, apis: Apis, ref: EntityRef
) -> Mapping[str, Any]:
    """Create a new API key and secret key for a user, and return both. All earlier keys of the user become invalid.

    Raises:
        InvalidParameter, PermissionDenied: the caller may not administer the user.
    """
    api_key, secret_key = random_text(KEY_BYTES), random_text(KEY_BYTES)
    _, user = lock_administered_user(connection, caller, apis, ref)
    _set_keys(connection, [(ref, {"userapikey": api_key, "usersecretkey": cipher.encrypt(secret_key)})])
    record_event(connection, caller, EventType.USER_KEYS, f"gave new keys to user {user.username}")
    return {"apikey": api_key, "secretkey": secret_key}


def get_user_keys(
    connection: Connection, cipher: Cipher, caller: Caller, apis: Apis, ref: EntityRef
) -> Mapping[str, Any]:
    """Return the newest API key and secret key of a user, or an empty mapping if the user has no keys.

    Raises:
        InvalidParameter, PermissionDenied: the caller may not administer the user.
    """
    _require_administered_users(connection, caller, apis, [ref])
    keys = users.newest_keys(connection, ref.id)
    return {} if keys is None else {"apikey": keys[0], "secretkey": cipher.decrypt(keys[1])}


def lock_administered_user(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef
) -> tuple[Owner, Row[Any]]:
    """Lock the row of a user, and return it with the owner of the user's account.

    The user must be the caller or a user that the caller administers. An admin also administers the users of its
    own account; other callers can only change themselves.

    Raises:
        InvalidParameter: the user was deleted, or is the service's own user.
        PermissionDenied: the caller may not administer the user.
    """
    ((owner, user),) = lock_administered_users(connection, caller, apis, [ref])
    return owner, user


def lock_administered_users(
    connection: Connection, caller: Caller, apis: Apis, refs: Sequence[EntityRef]
) -> list[tuple[Owner, Row[Any]]]:
    """Lock several users and return them with their owners in order, as ``lock_administered_user`` does for one.

    All domains are locked first, then all accounts, then all users.
    """
    owners = _require_administered_users(connection, caller, apis, refs)
    lock_domains(connection, {owner.domain_id for owner in owners})
    accounts = lock_accounts(connection, {owner.account_id for owner in owners})
    locked = users.lock_users(connection, [ref.id for ref in refs])
    for ref, owner in zip(refs, owners, strict=True):
        if ref.id not in locked or owner.account_id not in accounts:
            raise InvalidParameter("id", str(ref.uuid), "the user was deleted")
    return [(owner, locked[ref.id]) for ref, owner in zip(refs, owners, strict=True)]


def _require_administered_users(
    connection: Connection, caller: Caller, apis: Apis, refs: Sequence[EntityRef]
) -> list[Owner]:
    places = users.accounts_of(connection, [ref.id for ref in refs])
    owners = owners_by_id(connection, {account_id for account_id, _ in places.values()})
    rights = rights_of(connection, {role_id for _, role_id in places.values()})
    for ref in refs:
        if ref.id not in places or ref.removed:
            raise InvalidParameter("id", str(ref.uuid), "the user was deleted")
        if ref.id == users.SYSTEM_USER_ID:
            raise InvalidParameter("id", str(ref.uuid), "the service itself acts as this user")
        account_id, role_id = places[ref.id]
        if caller.role_type is RoleType.USER and ref.id != caller.user_id:
            # A caller with a user's keys or password could act as that user; events would name the wrong person.
            raise PermissionDenied(
                f"{caller.username} does not have permission to operate with resource user {ref.uuid}: "
                "a user whose role is of type User can only act on itself"
            )
        require_administered(caller, owners[account_id], rights[role_id], apis, f"user {ref.uuid}")
    return [owners[places[ref.id][0]] for ref in refs]


def require_other(caller: Caller, user: Row[Any], action: str) -> None:
    """Raise InvalidParameter if the user is the caller itself or a user that the installation created.

    Such users cannot be deleted, locked, disabled or moved. ``action`` is the verb of the error message.

    Raises:
        InvalidParameter: the user is the caller, or was created by the installation.
    """
    if user.is_default:
        raise InvalidParameter("id", str(user.uuid), f"cannot {action} a default user")
    if user.id == caller.user_id:
        raise InvalidParameter("id", str(user.uuid), f"cannot {action} the user who makes the call")


def _set_keys(connection: Connection, given: Iterable[tuple[EntityRef, Arguments]]) -> None:
    keys = {ref: (one["userapikey"], one["usersecretkey"]) for ref, one in given if "userapikey" in one}
    holders = users.holders_of_keys(connection, [key for key, _ in keys.values()]) if keys else {}
    for ref, (key, _) in keys.items():
        if holders.setdefault(key, ref.id) != ref.id:
            raise InvalidParameter(
                "userapikey", NOT_SHOWN, "another user has this key; use a key that registerUserKeys generates"
            )
    if keys:
        users.replace_keys(connection, {ref.id: pair for ref, pair in keys.items()})


def _with_hashed_password(cipher: Cipher, given: Arguments) -> Arguments:
    hidden: dict[str, Any] = {}
    if "password" in given:
        hidden["passwordhash"] = hash_password(given["password"])
    if "usersecretkey" in given:
        hidden["usersecretkey"] = cipher.encrypt(given["usersecretkey"])
    return ChainMap(hidden, given)  # type: ignore[arg-type] # only read
