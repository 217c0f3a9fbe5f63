"""Commands of users and their API keys (one file: a noun)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.commands.accounts.new_user import NEW_USER, new_user
from bulkdeploy.commands.accounts.responses import USER
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.registry import every_api
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS, NO_KEY_ACCESS
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, SHOW_ICON
from bulkdeploy.declare.noun import Noun, Values, by
from bulkdeploy.declare.parameters import Exclusive, Needs, integer, string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import KEY, NAME, PASSWORD, PASSWORD_HASH, TIME_ZONE
from bulkdeploy.domain.accounts.accounts import ADMINS, EVERY_ROLE, ROOT_ADMIN_ONLY, AccountState, Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.services.accounts import user_states
from bulkdeploy.services.accounts import users as service
from bulkdeploy.services.accounts.authority import AccountParameters
from bulkdeploy.services.accounts.users import PreparedUpdate
from bulkdeploy.services.ownership import as_found_by_id
from bulkdeploy.store.accounts import users
from bulkdeploy.store.rows.listing import Page


def list_users(call: Call) -> Page:
    """Return users without their passwords and secret keys.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return users.list_users(call.connection, call.caller, visible(call), call.arguments, paging(call))


def get_user(call: Call) -> dict[str, Any]:
    """Return the user that has an API key.

    Raises:
        InvalidParameter: no user that the caller may see has the key.
    """
    seen, key = as_found_by_id(call.connection, call.caller), call.arguments["userapikey"]
    row = users.user_by_key(call.connection, call.caller, seen, key)
    if row is None:
        raise InvalidParameter("userapikey", key, "no user has this API key")
    return row


def create_user(call: Call, user: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add a user to an account, and return the user."""
    (made,) = service.create_users(call.connection, call.caller, every_api(), [user])
    return users.read_user(call.connection, call.caller, made.id)


def move_user(call: Call) -> None:
    """Move a user to another account of its domain."""
    target = AccountParameters(call.ref("accountid"), call.text("account"))
    service.move_user(call.connection, call.caller, every_api(), call.arguments["id"], target)


def prepare_update(call: Call) -> PreparedUpdate:
    """Hash the new password and check the current one, before the transaction of updateUser."""
    user = call.arguments["id"]
    return service.prepare_update(call.system, call.connection, call.caller, every_api(), user, call.arguments)


def update_user(call: Call, prepared: PreparedUpdate) -> Mapping[str, Any] | InvalidParameter:
    """Change a user, and return the user. Returns an error if the current password is required and wrong."""
    user, apis = call.arguments["id"], every_api()
    if (refused := service.wrong_password(call.connection, call.caller, apis, user, prepared)) is not None:
        return refused
    service.update_users(call.connection, call.caller, apis, [(user, prepared.given)])
    return users.read_user(call.connection, call.caller, user.id)


def enable_user(call: Call) -> Mapping[str, Any]:
    """Enable a user, and return the user. The user's counted login failures are reset."""
    return user_states.enable_user(call.connection, call.caller, every_api(), call.arguments["id"])


def lock_user(call: Call) -> Mapping[str, Any]:
    """Lock a user, so that the user cannot log in, and return the user."""
    return user_states.lock_user(call.connection, call.caller, every_api(), call.arguments["id"])


def disable_user(call: Call) -> JobTicket:
    """Disable a user. The job's result is the user."""
    return user_states.disable_user(call.connection, call.caller, every_api(), call.arguments["id"])


def delete_user(call: Call) -> None:
    """Delete a user. The objects of the user's account are kept."""
    service.delete_users(call.connection, call.caller, every_api(), [call.arguments["id"]])


def register_user_keys(call: Call) -> Mapping[str, Any]:
    """Create new API keys for a user, and return them. The user's earlier keys become invalid."""
    user = call.arguments["id"]
    return service.register_user_keys(call.connection, call.system.cipher, call.caller, every_api(), user)


def get_user_keys(call: Call) -> Mapping[str, Any]:
    """Return the newest API key and secret key of a user."""
    user = call.arguments["id"]
    return service.get_user_keys(call.connection, call.system.cipher, call.caller, every_api(), user)


USER_KEYS = Response(
    "userkeys", (text("apikey", "the API key"), text("secretkey", "the secret key with which requests are signed"))
)

STATES = tuple(state.value for state in AccountState)
THE_USER = uuid("id", Entity.USER, "the user", required=True)

KEYS = (
    string("userapikey", "the new API key; earlier keys become invalid", rule=KEY),
    string("usersecretkey", "the secret key that belongs to userapikey", rule=KEY),
)
KEYS_TOGETHER = (Needs("userapikey", "usersecretkey"), Needs("usersecretkey", "userapikey"))

CREATE = Command(
    name="createUser",
    description="Adds a user to an account",
    handler=create_user,
    prepare=new_user,
    shape=Shape.OBJECT,
    response=USER,
    roles=ADMINS,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        string("account", "the name of the account; domainid names its domain", required=True),
        uuid("domainid", Entity.DOMAIN, "the domain of the account; default: the domain of the caller"),
        *NEW_USER,
    ),
    unsupported={"userid": NO_CUSTOM_IDS},
)

UPDATE = Command(
    name="updateUser",
    description="Changes a user. A user who changes their own password must send the current one.",
    handler=update_user,
    prepare=prepare_update,
    shape=Shape.OBJECT,
    response=USER,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        THE_USER,
        string("username", "the new login name", rule=NAME),
        string("firstname", "the first name"),
        string("lastname", "the last name"),
        string("email", "the e-mail address"),
        string("timezone", "the time zone, such as Europe/Berlin", rule=TIME_ZONE, clearable=True),
        string("password", "the new password; ends the user's sessions", rule=PASSWORD),
        string("currentpassword", "the current password; required if users change their own password"),
        *KEYS,
    ),
    rules=KEYS_TOGETHER,
    unsupported={
        "apikeyaccess": NO_KEY_ACCESS,
        "mandate2fa": "two-factor authentication is not supported",
    },
)

COMMANDS = (
    Command(
        name="listUsers",
        description="Lists users",
        handler=list_users,
        shape=Shape.LIST,
        response=USER,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.USER, "only this user"),
            string("username", "only users of this name"),
            integer("accounttype", "only users of accounts of this type"),
            string("state", "only users in this state", choices=STATES),
            string("usersource", "only users from this source; all users are native"),
            SHOW_ICON,
            *OWNER,
            *PAGING,
        ),
        unsupported={"apikeyaccess": NO_KEY_ACCESS},
    ),
    Command(
        name="getUser",
        description="Finds a user by API key",
        handler=get_user,
        shape=Shape.OBJECT,
        response=USER,
        roles=ROOT_ADMIN_ONLY,
        parameters=(string("userapikey", "the user's API key", required=True),),
    ),
    CREATE,
    UPDATE,
    Command(
        name="enableUser",
        description="Enables a disabled or locked user",
        handler=enable_user,
        shape=Shape.OBJECT,
        response=USER,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_USER,),
    ),
    Command(
        name="lockUser",
        description=(
            "Locks a user: its password, keys and sessions stop working, as with disableUser. enableUser unlocks "
            "the user"
        ),
        handler=lock_user,
        shape=Shape.OBJECT,
        response=USER,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_USER,),
    ),
    Command(
        name="disableUser",
        description="Disables a user: its password, keys and sessions stop working",
        handler=disable_user,
        shape=Shape.JOB,
        response=USER,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_USER,),
    ),
    Command(
        name="deleteUser",
        description="Deletes a user. Objects of the user's account are kept",
        handler=delete_user,
        shape=Shape.SUCCESS,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_USER,),
    ),
    Command(
        name="moveUser",
        description="Moves a user to another account of its domain, with its password and keys",
        handler=move_user,
        shape=Shape.SUCCESS,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            THE_USER,
            uuid("accountid", Entity.ACCOUNT, "the account that the user moves to"),
            string("account", "the name of the account that the user moves to"),
        ),
        rules=(Exclusive(("accountid", "account")),),
    ),
    Command(
        name="registerUserKeys",
        description="Creates new API keys for a user. All earlier keys become invalid.",
        handler=register_user_keys,
        shape=Shape.OBJECT,
        response=USER_KEYS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_USER,),
    ),
    Command(
        name="getUserKeys",
        authorized=EVERY_ROLE,
        description="Returns the latest API keys of a user",
        handler=get_user_keys,
        shape=Shape.OBJECT,
        response=USER_KEYS,
        errors=(PermissionDenied,),
        parameters=(THE_USER,),
    ),
)


def set_users(connection: Connection, caller: Caller, batch: Sequence[Values]) -> Sequence[EntityRef]:
    """Create or change the users of a zone file."""
    return service.set_users(connection, caller, every_api(), batch)


def _with_secret(row: Values, decrypt: Callable[[bytes], str]) -> Values:
    kept = row["_secret"]
    return row if kept is None else {**row, "usersecretkey": decrypt(kept)}


def _as_it_is(password: object) -> object:
    return password


NOUNS = (
    Noun(
        section="users",
        entity=Entity.USER,
        create=replace(CREATE, rules=(*KEYS_TOGETHER, Exclusive(("password", "passwordhash")))),
        create_many=set_users,
        prepare=service.prepare_users,
        more=(
            *KEYS,
            string(
                "passwordhash", "the argon2id hash of the password; used instead of password", rule=PASSWORD_HASH
            ),
            string("state", "the state: enabled, disabled or locked", choices=STATES),
        ),
        optional=("password", "firstname", "lastname", "email"),
        read=service.read_users,
        key=by("domainid", "account", "username"),
        name="username",
        compare={"password": _as_it_is},
        secrets=("passwordhash", *(key.name for key in KEYS)),
        reveal=_with_secret,
        after=("accounts",),
        defaults={"domainid": "ROOT"},
    ),
)
