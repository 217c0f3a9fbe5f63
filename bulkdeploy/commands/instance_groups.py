"""listInstanceGroups."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store import instance_groups
from bulkdeploy.store.listing import Page

INSTANCE_GROUP = Response(
    "instancegroup",
    (
        text("id", "the instance group"),
        text("name", "its name"),
        moment("created", "when it was made"),
        *OWNER_FIELDS,
    ),
)


def list_instance_groups(call: Call) -> Page:
    """Instance groups.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return instance_groups.list_instance_groups(call.connection, visible(call), call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listInstanceGroups",
        description="Lists instance groups",
        handler=list_instance_groups,
        shape=Shape.LIST,
        response=INSTANCE_GROUP,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.INSTANCE_GROUP, "only this instance group"),
            string("name", "only instance groups of this name"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
)
