"""Commands of accounts (one file: the commands of one noun)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.commands.accounts.new_user import NEW_USER, new_user
from bulkdeploy.commands.accounts.responses import ACCOUNT_COUNTERS, USER
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.registry import every_api
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS, NO_KEY_ACCESS, NO_TAGGED_LIMITS
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, SHOW_ICON
from bulkdeploy.declare.noun import Change, Noun, Values, by
from bulkdeploy.declare.parameters import Parameter, WireType, boolean, integer, string, strings, uuid
from bulkdeploy.declare.response_fields import flag, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, NETWORK_DOMAIN
from bulkdeploy.domain.accounts.accounts import ADMINS, AccountState, Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.accounts import accounts as service
from bulkdeploy.services.accounts.authority import AccountParameters
from bulkdeploy.services.accounts.users import add_users
from bulkdeploy.store.accounts import accounts
from bulkdeploy.store.rows.listing import Page

STATES = tuple(state.value for state in AccountState)
DETAILS = ("all", "resource", "min")

ACCOUNT = Response(
    "account",
    (
        text("id", "the account"),
        text("name", "the name of the account"),
        number("accounttype", "the type of the account: 0 user, 1 root admin, 2 domain admin, 3 resource admin"),
        text("state", "the state: enabled, disabled or locked"),
        text("domainid", "the domain of the account"),
        text("domain", "the domain's name"),
        text("domainpath", "the names of all domains from ROOT down to the domain of the account"),
        text("networkdomain", "the default DNS domain of the networks"),
        text("roleid", "the role of the account"),
        text("rolename", "the role's name"),
        text("roletype", "the role's type"),
        flag("isdefault", "whether the object was created by the installation"),
        moment("created", "the date and time of creation"),
        objects("user", "the users of the account", USER.fields),
        *ACCOUNT_COUNTERS,
    ),
)


def list_accounts(call: Call) -> Page:
    """Return accounts with their users, and with limits and totals unless ``details`` is min.

    Raises:
        PermissionDenied: ``domainid`` is outside the caller's reach.
    """
    details = call.arguments.get("details", ("all",))
    return accounts.list_accounts(
        call.connection,
        call.caller,
        visible(call),
        call.arguments,
        paging(call),
        with_counters=any(word != "min" for word in details),
    )


def create_account(call: Call, user: Mapping[str, Any]) -> Mapping[str, Any]:
    """Create an account with its first user, and return the account.

    If the call gives no account name, the name of the user is used. ``user`` is the prepared user, with a hashed
    password.
    """
    named = {**call.arguments, "account": call.text("account") or user["username"]}
    (account,) = service.create_accounts(call.connection, call.caller, every_api(), [named])
    domain = call.ref("domainid")
    domain_id = call.caller.owner.domain_id if domain is None else domain.id
    add_users(call.connection, [(account.id, domain_id)], [user])
    return accounts.read_account(call.connection, call.caller, account.id)


def update_account(call: Call) -> Mapping[str, Any]:
    """Change the fields of an account, and return the account."""
    account = service.account_of(call.connection, call.caller, every_api(), _account(call))
    service.update_accounts(call.connection, call.caller, every_api(), [(account, call.arguments)])
    return accounts.read_account(call.connection, call.caller, account.id)


def enable_account(call: Call) -> Mapping[str, Any]:
    """Enable an account, and return the account."""
    return service.enable_account(call.connection, call.caller, every_api(), _account(call))


def lock_account(call: Call) -> Mapping[str, Any]:
    """Lock an account, so that its users cannot log in, and return the account. Its VMs keep running."""
    return service.lock_account(call.connection, call.caller, every_api(), _account(call))


def disable_account(call: Call) -> JobTicket:
    """Disable an account and stop its VMs. If ``lock`` is given, the account is only locked."""
    queue, lock = call.system.job_queue, call.flag("lock")
    return service.disable_account(call.connection, queue, call.caller, every_api(), _account(call), lock=lock)


def delete_account(call: Call) -> JobTicket:
    """Delete an account with everything that it owns. The job ends when the account's VMs are deleted."""
    queue, account = call.system.job_queue, call.arguments["id"]
    removed = service.delete_accounts(call.connection, queue, call.caller, every_api(), [account])
    return service.deleted(call.connection, call.caller, account, removed)


def _account(call: Call) -> AccountParameters:
    return AccountParameters(call.ref("id"), call.text("account"), call.ref("domainid"))


WHICH = (
    uuid("id", Entity.ACCOUNT, "the account"),
    string("account", "the name of the account, together with domainid; used instead of id"),
    uuid("domainid", Entity.DOMAIN, "the domain of the account; default: the domain of the caller"),
)

NO_DETAILS = "accounts have no details"

NAME_OF_ACCOUNT = string(
    "account", "the name of the account; default: the name of the user", rule=NAME, clearable=True
)

NEW_ACCOUNT = (
    integer(
        "accounttype",
        "the type of the account: 0 user, 1 root admin, 2 domain admin, 3 resource admin; ignored if roleid is "
        "given",
    ),
    uuid("roleid", Entity.ROLE, "the role of the account"),
    uuid("domainid", Entity.DOMAIN, "the domain of the account; default: the domain of the caller"),
    string("networkdomain", "the default DNS domain of the networks", rule=NETWORK_DOMAIN, clearable=True),
)

CHANGEABLE = (
    uuid("roleid", Entity.ROLE, "the new role of the account"),
    string("networkdomain", "the DNS domain of its networks; empty: none", rule=NETWORK_DOMAIN, clearable=True),
)

CREATE = Command(
    name="createAccount",
    description="Creates an account with its first user",
    handler=create_account,
    prepare=new_user,
    shape=Shape.OBJECT,
    response=ACCOUNT,
    roles=ADMINS,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        NAME_OF_ACCOUNT,
        *NEW_ACCOUNT,
        *NEW_USER,
    ),
    unsupported={"accountid": NO_CUSTOM_IDS, "userid": NO_CUSTOM_IDS, "accountdetails": NO_DETAILS},
)

UPDATE = Command(
    name="updateAccount",
    description="Changes the name, role or network domain of an account",
    handler=update_account,
    shape=Shape.OBJECT,
    response=ACCOUNT,
    roles=ADMINS,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        *WHICH,
        string("newname", "the new name of the account", rule=NAME),
        *CHANGEABLE,
    ),
    unsupported={"accountdetails": NO_DETAILS, "apikeyaccess": NO_KEY_ACCESS},
)

COMMANDS = (
    Command(
        name="listAccounts",
        description="Lists accounts with their users, limits and totals",
        handler=list_accounts,
        shape=Shape.LIST,
        response=ACCOUNT,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.ACCOUNT, "only this account"),
            string("name", "only accounts of this name"),
            integer("accounttype", "only accounts of this type"),
            string("state", "only accounts in this state", choices=STATES),
            strings(
                "details",
                "the groups of fields that the response contains for each account; default: all",
                choices=DETAILS,
            ),
            boolean(
                "iscleanuprequired",
                "true: only accounts that still have to be cleaned up. The list is then empty, as there are none",
            ),
            SHOW_ICON,
            *(parameter for parameter in OWNER if parameter.name != "account"),
            *PAGING,
        ),
        unsupported={"apikeyaccess": NO_KEY_ACCESS, "tag": NO_TAGGED_LIMITS},
    ),
    CREATE,
    UPDATE,
    Command(
        name="enableAccount",
        description="Enables a disabled or locked account",
        handler=enable_account,
        shape=Shape.OBJECT,
        response=ACCOUNT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=WHICH,
    ),
    Command(
        name="disableAccount",
        description="Disables an account and, unless lock=true, stops its virtual machines",
        handler=disable_account,
        shape=Shape.JOB,
        response=ACCOUNT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            *WHICH,
            Parameter(
                "lock",
                WireType.BOOLEAN,
                "true: only lock the account; its virtual machines keep running",
                required=True,
            ),
        ),
    ),
    Command(
        name="lockAccount",
        description="Locks an account: its users cannot log in; its virtual machines keep running",
        handler=lock_account,
        shape=Shape.OBJECT,
        response=ACCOUNT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            string("account", "the name of the account", required=True),
            uuid("domainid", Entity.DOMAIN, "the account's domain", required=True),
        ),
    ),
    Command(
        name="deleteAccount",
        description=(
            "Deletes an account with all objects that it owns. The job ends when its virtual machines are expunged"
        ),
        handler=delete_account,
        shape=Shape.JOB_SUCCESS,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied, ResourceInUse),
        parameters=(uuid("id", Entity.ACCOUNT, "the account", required=True),),
    ),
)


def create_accounts(connection: Connection, caller: Caller, batch: Sequence[Values]) -> Sequence[EntityRef]:
    """Create the accounts of a zone file, and return them."""
    return service.create_accounts(connection, caller, every_api(), batch)


def update_accounts(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change accounts so that they match the entries of a zone file."""
    service.update_accounts(connection, caller, every_api(), changes)


NOUNS = (
    # Entries of accounts contain their users, so the account has no field for a user.
    Noun(
        section="accounts",
        entity=Entity.ACCOUNT,
        create=replace(CREATE, parameters=(replace(NAME_OF_ACCOUNT, required=True), *NEW_ACCOUNT)),
        create_many=create_accounts,
        update=replace(UPDATE, parameters=CHANGEABLE),
        update_many=update_accounts,
        more=(string("state", "enabled, disabled or locked; no virtual machine is stopped", choices=STATES),),
        read=accounts.read_accounts,
        key=by("domainid", "account"),
        name="account",
        parent="domainid",
        defaults={"domainid": "ROOT"},
        lends=("account",),
        last={"state": AccountState.ENABLED.value},
    ),
)
