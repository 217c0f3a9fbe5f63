"""listTags."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import TAG_FIELDS
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store import resource_tags
from bulkdeploy.store.listing import Page


def list_tags(call: Call) -> Page:
    """Tags.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return resource_tags.list_tags(call.connection, visible(call), call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listTags",
        description="Lists the tags of resources",
        handler=list_tags,
        shape=Shape.LIST,
        response=Response("tag", TAG_FIELDS),
        errors=(PermissionDenied,),
        parameters=(
            string("key", "only tags of this key"),
            string("value", "only tags of this value"),
            string("resourcetype", "only tags of this kind of thing, such as UserVm"),
            string("resourceid", "only tags of this thing"),
            string("customer", "only tags of this customer"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
)
