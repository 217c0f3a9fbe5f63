"""listAccounts."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.counter_fields import ACCOUNT_COUNTERS
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.user_response import USER
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING
from bulkdeploy.declare.parameters import integer, string, strings, uuid
from bulkdeploy.declare.response_fields import flag, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import AccountState
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.store import accounts
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
        InvalidParameter: an unknown word in ``details``.
        PermissionDenied: ``domainid`` is outside the caller's reach.
    """
    details = call.arguments.get("details", ("all",))
    for word in details:
        if word.lower() not in DETAILS:
            raise InvalidParameter("details", word, f"it should be one of: {', '.join(DETAILS)}")
    return accounts.list_accounts(
        call.connection,
        call.caller,
        visible(call),
        call.arguments,
        paging(call),
        with_counters=any(word.lower() != "min" for word in details),
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
            string("state", "only accounts in this state", choices=tuple(state.value for state in AccountState)),
            strings("details", f"what to say of each account: {', '.join(DETAILS)}; default all"),
            *(parameter for parameter in OWNER if parameter.name != "account"),
            *PAGING,
        ),
    ),
)
