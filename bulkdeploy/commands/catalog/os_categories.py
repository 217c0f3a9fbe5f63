"""listOsCategories."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING, SHOW_ICON
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.catalog import os_categories
from bulkdeploy.store.listing import Page


def list_os_categories(call: Call) -> Page:
    """Categories of guest OS types."""
    return os_categories.list_os_categories(call.connection, call.arguments, paging(call))


NOT_BY_IMAGES = "categories are listed whatever images there are of them; listTemplates takes oscategoryid"

COMMANDS = (
    Command(
        name="listOsCategories",
        description="Lists categories of guest OS types",
        handler=list_os_categories,
        shape=Shape.LIST,
        response=Response("oscategory", (text("id", "the category"), text("name", "its name"))),
        parameters=(
            uuid("id", Entity.OS_CATEGORY, "only this category"),
            string("name", "only the category of this name"),
            SHOW_ICON,
            *PAGING,
        ),
        unsupported=dict.fromkeys(("arch", "isfeatured", "isiso", "isvnf", "zoneid"), NOT_BY_IMAGES),
    ),
)
