"""listHostTags and listStorageTags: the tags of hosts and pools that offerings can require."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import INFRASTRUCTURE_ADMINS
from bulkdeploy.store.infrastructure import placement_tags
from bulkdeploy.store.rows.listing import Page


def list_host_tags(call: Call) -> Page:
    """Return the tags of hosts, each once."""
    return placement_tags.list_host_tags(call.connection, call.arguments, paging(call))


def list_storage_tags(call: Call) -> Page:
    """Return the tags of storage pools, each once."""
    return placement_tags.list_storage_tags(call.connection, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listHostTags",
        description="Lists the tags that hosts carry",
        handler=list_host_tags,
        shape=Shape.LIST,
        response=Response("hosttag", (text("name", "the tag"),)),
        roles=INFRASTRUCTURE_ADMINS,
        parameters=PAGING,
    ),
    Command(
        name="listStorageTags",
        description="Lists the tags that storage pools carry",
        handler=list_storage_tags,
        shape=Shape.LIST,
        response=Response("storagetag", (text("name", "the tag"),)),
        roles=INFRASTRUCTURE_ADMINS,
        parameters=PAGING,
    ),
)
