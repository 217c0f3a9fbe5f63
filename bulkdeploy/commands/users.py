"""listUsers and getUser."""

from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.user_response import USER
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING
from bulkdeploy.declare.parameters import integer, string, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY, AccountState
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.store import users
from bulkdeploy.store.listing import Page


def list_users(call: Call) -> Page:
    """Users; never their passwords or secret keys.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return users.list_users(call.connection, call.caller, visible(call), call.arguments, paging(call))


def get_user(call: Call) -> dict[str, Any]:
    """The user that has an API key.

    Raises:
        InvalidParameter: nobody has it.
    """
    row = users.user_by_key(call.connection, call.caller, call.arguments["userapikey"])
    if row is None:
        raise InvalidParameter("userapikey", call.arguments["userapikey"], "no user has this API key")
    return row


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
            string("state", "only users in this state", choices=tuple(state.value for state in AccountState)),
            *OWNER,
            *PAGING,
        ),
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
)
