"""listUserData, registerUserData, deleteUserData."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.deployments import registered_user_data
from bulkdeploy.store.listing import Page
from bulkdeploy.store.virtual_machines import user_data

USER_DATA = Response(
    "userdata",
    (
        text("id", "the registered user data"),
        text("name", "its name"),
        text("userdata", "the data, base64"),
        text("params", "the names of the variables in it, separated by commas"),
        text("accountid", "the account that owns it"),
        *OWNER_FIELDS,
    ),
)


def list_user_data(call: Call) -> Page:
    """Registered user data.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return user_data.list_user_data(call.connection, visible(call), call.arguments, paging(call))


def register_user_data(call: Call) -> Mapping[str, Any]:
    """Register user data under a name."""
    return registered_user_data.register_user_data(
        call.connection,
        call.caller,
        named_owner(call),
        call.arguments["name"],
        call.arguments["userdata"],
        call.text("params"),
        method=call.method,
    )


def delete_user_data(call: Call) -> None:
    """Delete registered user data."""
    registered_user_data.delete_user_data(call.connection, call.caller, named_owner(call), call.arguments["id"])


COMMANDS = (
    Command(
        name="listUserData",
        description="Lists registered user data",
        handler=list_user_data,
        shape=Shape.LIST,
        response=USER_DATA,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.USER_DATA, "only this user data"),
            string("name", "only user data of this name"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
    Command(
        name="registerUserData",
        description="Registers user data under a name",
        handler=register_user_data,
        shape=Shape.OBJECT,
        response=USER_DATA,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            string("name", "its name; an owner has each name once", required=True),
            string(
                "userdata",
                "the data, base64; at most vm.userdata.max.length characters",
                required=True,
                length=1048576,
            ),
            string("params", "the names of the variables in it, separated by commas"),
            *FOR_OWNER,
        ),
    ),
    Command(
        name="deleteUserData",
        description="Deletes registered user data; VMs made with it keep theirs",
        handler=delete_user_data,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(uuid("id", Entity.USER_DATA, "the user data", required=True), *FOR_OWNER),
    ),
)
