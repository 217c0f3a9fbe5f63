"""listUserData."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store import user_data
from bulkdeploy.store.listing import Page

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
)
