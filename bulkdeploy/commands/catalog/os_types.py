"""listOsTypes."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Exclusive, boolean, string, uuid, uuids
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.catalog import os_types
from bulkdeploy.store.listing import Page


def list_os_types(call: Call) -> Page:
    """Guest OS types."""
    return os_types.list_os_types(call.connection, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listOsTypes",
        description="Lists guest OS types",
        handler=list_os_types,
        shape=Shape.LIST,
        response=Response(
            "ostype",
            (
                text("id", "the OS type"),
                text("name", "its name"),
                text("description", "its name"),
                text("oscategoryid", "its category"),
                text("oscategoryname", "the category's name"),
            ),
        ),
        parameters=(
            uuid("id", Entity.OS_TYPE, "only this OS type"),
            uuids("ids", Entity.OS_TYPE, "only these OS types"),
            string("description", "only the OS type of this name"),
            uuid("oscategoryid", Entity.OS_CATEGORY, "only OS types of this category"),
            boolean("fordisplay", "false: only hidden OS types; there are none"),
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
    ),
)
