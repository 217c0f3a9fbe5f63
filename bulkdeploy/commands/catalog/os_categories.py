"""listOsCategories: the categories of guest OS types."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING, SHOW_ICON
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import flag, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.catalog import os_categories
from bulkdeploy.store.rows.listing import Page


def list_os_categories(call: Call) -> Page:
    """Return the categories of guest OS types."""
    return os_categories.list_os_categories(call.connection, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listOsCategories",
        description="Lists categories of guest OS types",
        handler=list_os_categories,
        shape=Shape.LIST,
        response=Response(
            "oscategory",
            (
                text("id", "the category"),
                text("name", "the name of the category"),
                flag("isfeatured", "true: every category is offered when VMs are deployed"),
            ),
        ),
        parameters=(
            uuid("id", Entity.OS_CATEGORY, "only this category"),
            string("name", "only the category of this name"),
            boolean("isfeatured", "true: all categories; false: none, because every category is featured"),
            boolean("isiso", "true: only categories that have an ISO; false: only categories that have a template"),
            boolean("isvnf", "true: only categories of network appliances; there are none"),
            uuid("zoneid", Entity.ZONE, "only categories that have an image in this zone"),
            string("arch", "only categories that have an image for this CPU architecture"),
            SHOW_ICON,
            *PAGING,
        ),
    ),
)
