"""Accounts: the list, and all that changes them (reference section 8.13)."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.accounts.new_user import NEW_USER, new_user
from bulkdeploy.commands.accounts.responses import ACCOUNT_COUNTERS, USER
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.registry import every_api
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS, NO_KEY_ACCESS, NO_TAGGED_LIMITS
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, SHOW_ICON
from bulkdeploy.declare.parameters import Parameter, WireType, boolean, integer, string, strings, uuid
from bulkdeploy.declare.response_fields import flag, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ADMINS, AccountState
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.accounts import accounts as service
from bulkdeploy.services.accounts.accounts import NewAccount
from bulkdeploy.services.accounts.authority import AccountParameters
from bulkdeploy.store.accounts import accounts
from bulkdeploy.store.listing import Page

DETAILS = ("all", "resource", "min")

ACCOUNT = Response(
    "account",
    (
        text("id", "the account"),
        text("name", "its name"),
        number("accounttype", "its type: 0 user, 1 root admin, 2 domain admin, 3 resource admin"),
        text("state", "enabled, disabled or locked"),
        text("domainid", "its domain"),
        text("domain", "the domain's name"),
        text("domainpath", "the names of its domain and of those above it, from ROOT down"),
        text("networkdomain", "the DNS domain of its networks"),
        text("roleid", "its role"),
        text("rolename", "the role's name"),
        text("roletype", "the role's type"),
        flag("isdefault", "whether it came with the installation"),
        moment("created", "when it was made"),
        objects("user", "its users", USER.fields),
        *ACCOUNT_COUNTERS,
    ),
)


def list_accounts(call: Call) -> Page:
    """Accounts with their users, limits and totals.

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
    """Make an account with its first user."""
    asked = NewAccount(
        call.text("account"),
        call.ref("domainid"),
        call.ref("roleid"),
        call.arguments.get("accounttype"),
        call.text("networkdomain"),
    )
    return service.create_account(call.connection, call.caller, every_api(), asked, user)


def update_account(call: Call) -> Mapping[str, Any]:
    """Change an account."""
    return service.update_account(call.connection, call.caller, every_api(), _account(call), call.arguments)


def enable_account(call: Call) -> Mapping[str, Any]:
    """Let an account's users in again."""
    return service.enable_account(call.connection, call.caller, every_api(), _account(call))


def lock_account(call: Call) -> Mapping[str, Any]:
    """Keep an account's users out."""
    return service.lock_account(call.connection, call.caller, every_api(), _account(call))


def disable_account(call: Call) -> JobTicket:
    """Keep an account's users out and, unless it is only locked, stop its VMs."""
    queue, lock = call.system.job_queue, call.flag("lock")
    return service.disable_account(call.connection, queue, call.caller, every_api(), _account(call), lock=lock)


def delete_account(call: Call) -> JobTicket:
    """Delete an account with all it owns."""
    queue = call.system.job_queue
    return service.delete_account(call.connection, queue, call.caller, every_api(), call.arguments["id"])


def _account(call: Call) -> AccountParameters:
    return AccountParameters(call.ref("id"), call.text("account"), call.ref("domainid"))


WHICH = (
    uuid("id", Entity.ACCOUNT, "the account"),
    string("account", "the account's name, where no id is given; domainid says whose account it is"),
    uuid("domainid", Entity.DOMAIN, "the account's domain; default the caller's"),
)

NO_DETAILS = "accounts have no details"

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
            string("state", "only accounts in this state", choices=tuple(state.value for state in AccountState)),
            strings("details", "what to say of each account; default all", choices=DETAILS),
            boolean("iscleanuprequired", "true: only accounts with something left to clean up; there are none"),
            SHOW_ICON,
            *(parameter for parameter in OWNER if parameter.name != "account"),
            *PAGING,
        ),
        unsupported={"apikeyaccess": NO_KEY_ACCESS, "tag": NO_TAGGED_LIMITS},
    ),
    Command(
        name="createAccount",
        description="Makes an account with its first user",
        handler=create_account,
        prepare=new_user,
        shape=Shape.OBJECT,
        response=ACCOUNT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            string("account", "its name; without it the user's name"),
            integer(
                "accounttype", "where no role is given: 0 user, 1 root admin, 2 domain admin, 3 resource admin"
            ),
            uuid("roleid", Entity.ROLE, "its role"),
            uuid("domainid", Entity.DOMAIN, "its domain; default the caller's"),
            string("networkdomain", "the DNS domain of its networks"),
            *NEW_USER,
        ),
        unsupported={"accountid": NO_CUSTOM_IDS, "userid": NO_CUSTOM_IDS, "accountdetails": NO_DETAILS},
    ),
    Command(
        name="updateAccount",
        description="Gives an account another name, role or network domain",
        handler=update_account,
        shape=Shape.OBJECT,
        response=ACCOUNT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            *WHICH,
            string("newname", "its new name"),
            uuid("roleid", Entity.ROLE, "its new role"),
            string("networkdomain", "the DNS domain of its networks; empty: none"),
        ),
        unsupported={"accountdetails": NO_DETAILS, "apikeyaccess": NO_KEY_ACCESS},
    ),
    Command(
        name="enableAccount",
        description="Lets the users of an account in again",
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
        description="Keeps the users of an account out and, unless it is only locked, stops its virtual machines",
        handler=disable_account,
        shape=Shape.JOB,
        response=ACCOUNT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            *WHICH,
            Parameter("lock", WireType.BOOLEAN, "only lock it: its virtual machines run on", required=True),
        ),
    ),
    Command(
        name="lockAccount",
        description="Keeps the users of an account out; its virtual machines run on",
        handler=lock_account,
        shape=Shape.OBJECT,
        response=ACCOUNT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            string("account", "the account's name", required=True),
            uuid("domainid", Entity.DOMAIN, "the account's domain", required=True),
        ),
    ),
    Command(
        name="deleteAccount",
        description="Deletes an account with all it owns; the job ends when its virtual machines are gone",
        handler=delete_account,
        shape=Shape.JOB_SUCCESS,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied, ResourceInUse),
        parameters=(uuid("id", Entity.ACCOUNT, "the account", required=True),),
    ),
)
