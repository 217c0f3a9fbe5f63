"""listTags, createTags and deleteTags."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import Parameter, WireType, mapping, string
from bulkdeploy.declare.response_fields import TAG_FIELDS
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.virtual_machines import resource_tags as service
from bulkdeploy.services.virtual_machines.resource_tags import TAGGABLE
from bulkdeploy.store import resource_tags
from bulkdeploy.store.rows.listing import Page


def list_tags(call: Call) -> Page:
    """Return the tags of resources of the visible accounts.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return resource_tags.list_tags(call.connection, visible(call), call.arguments, paging(call))


def create_tags(call: Call) -> JobTicket:
    """Add tags to resources."""
    arguments = call.arguments
    return service.create_tags(
        call.connection,
        call.caller,
        arguments["resourcetype"],
        arguments["resourceids"],
        arguments["tags"],
        call.text("customer"),
    )


def delete_tags(call: Call) -> JobTicket:
    """Delete tags of resources."""
    arguments = call.arguments
    return service.delete_tags(
        call.connection, call.caller, arguments["resourcetype"], arguments["resourceids"], arguments.get("tags")
    )


RESOURCES: tuple[Parameter, ...] = (
    Parameter(
        "resourceids",
        WireType.LIST,
        "the resources, all of one type",
        required=True,
        element=WireType.UUID,
        entity=tuple(TAGGABLE.values()),
    ),
    string("resourcetype", "the type of the resources", required=True, choices=tuple(TAGGABLE)),
)

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
            string("resourcetype", "only tags of this type of resource, such as UserVm"),
            string("resourceid", "only tags of this resource"),
            string("customer", "only tags of this customer"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
    Command(
        name="createTags",
        description="Adds tags to resources. A resource has each key once.",
        handler=create_tags,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            *RESOURCES,
            Parameter("tags", WireType.MAP, "the tags: tags[0].key, tags[0].value", required=True),
            string("customer", "a free text that names the customer for whom the tags are set"),
        ),
    ),
    Command(
        name="deleteTags",
        description="Deletes tags of resources",
        handler=delete_tags,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            *RESOURCES,
            mapping(
                "tags",
                "the tags to delete: tags[0].key, and optionally tags[0].value to delete the tag only if it "
                "has this value; default: all tags",
            ),
        ),
    ),
)
