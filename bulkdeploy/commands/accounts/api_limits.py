"""getApiLimit and resetApiLimit: the number of calls that an account may still make (``api.throttling.*``)."""

from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import uuid
from bulkdeploy.declare.response_fields import large_number, number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.accounts.api_limits import current_count, forget_calls
from bulkdeploy.store.configuration.configurations import read_configuration


def get_api_limit(call: Call) -> dict[str, Any]:
    """Return the number of calls of the caller's account in the current interval, and the number still allowed."""
    settings = read_configuration(call.connection)
    owner = call.caller.owner
    counted = current_count(call.connection, owner.account_id, settings.number("api.throttling.interval"))
    return {
        "accountid": owner.account_uuid,
        "account": owner.account_name,
        "apiIssued": counted.calls,
        "apiAllowed": max(0, settings.number("api.throttling.max") - counted.calls),
        "expireAfter": -(-counted.milliseconds_left // 1000),
    }


def reset_api_limit(call: Call) -> None:
    """Set the call counter of one account, or of all accounts, to zero.

    Callers other than root admins can do this only for their own account.

    Raises:
        PermissionDenied: the caller may not act for the account.
    """
    account = call.ref("account")
    if account is not None:
        require_access(call.connection, call.caller, account.id, f"account {account.uuid}")
        forget_calls(call.connection, account.id)
    else:
        forget_calls(call.connection, None if call.caller.is_root_admin else call.caller.owner.account_id)


COMMANDS = (
    Command(
        name="getApiLimit",
        description="Returns how many calls the caller's account has left in the current interval",
        handler=get_api_limit,
        shape=Shape.OBJECT,
        response=Response(
            "apilimit",
            (
                text("accountid", "the account"),
                text("account", "the name of the account"),
                number("apiIssued", "the number of calls made in the present interval"),
                number("apiAllowed", "the number of calls that the account can still make in the present interval"),
                large_number("expireAfter", "the number of seconds until the next interval begins"),
            ),
        ),
    ),
    Command(
        name="resetApiLimit",
        description="Resets the API call counter of one account, or of all",
        handler=reset_api_limit,
        shape=Shape.SUCCESS,
        parameters=(uuid("account", Entity.ACCOUNT, "the account; default: all accounts"),),
        roles=ROOT_ADMIN_ONLY,
        errors=(PermissionDenied,),
        changes_state=True,
    ),
)
