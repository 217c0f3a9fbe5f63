"""listResourceDetails, addResourceDetail and removeResourceDetail."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import Parameter, WireType, boolean, details_of, string
from bulkdeploy.declare.response_fields import TAG_FIELDS
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.resources import resource_details as service
from bulkdeploy.services.resources.resource_details import ENTITIES
from bulkdeploy.store.resources import resource_details as store
from bulkdeploy.store.rows.listing import Page

DETAIL = Response("resourcedetail", tuple(field for field in TAG_FIELDS if field.name != "customer"))
TYPE = string("resourcetype", "the type of the resource", required=True, choices=store.TYPES)
RESOURCE = Parameter("resourceid", WireType.UUID, "the resource", required=True, entity=tuple(ENTITIES.values()))


def list_details(call: Call) -> Page:
    """Return the details of resources. Only root admins see hidden details.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    hidden = call.caller.is_root_admin
    return store.list_details(call.connection, visible(call), call.arguments, paging(call), hidden=hidden)


def add_detail(call: Call) -> JobTicket:
    """Write details of a resource. Existing details with the same keys are replaced."""
    given = call.arguments
    return service.add_details(
        call.connection,
        call.caller,
        given["resourcetype"],
        given["resourceid"],
        details_of(given["details"]),
        display=call.flag("fordisplay", default=True),
    )


def remove_detail(call: Call) -> JobTicket:
    """Delete one detail of a resource, or all details if no key is given."""
    given = call.arguments
    return service.remove_details(
        call.connection, call.caller, given["resourcetype"], given["resourceid"], call.text("key")
    )


COMMANDS = (
    Command(
        name="listResourceDetails",
        description="Lists the details that clients store for resources",
        handler=list_details,
        shape=Shape.LIST,
        response=DETAIL,
        errors=(PermissionDenied,),
        parameters=(
            TYPE,
            string("resourceid", "only details of this resource"),
            string("key", "only details of this key"),
            string("value", "only details of this value"),
            boolean(
                "fordisplay",
                "true: only details that users can see; false: only hidden details",
                roles=ROOT_ADMIN_ONLY,
            ),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
    Command(
        name="addResourceDetail",
        description="Adds details to a resource. Existing details of the same keys are replaced.",
        handler=add_detail,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            TYPE,
            RESOURCE,
            Parameter("details", WireType.MAP, "the details: details[0].key and details[0].value", required=True),
            boolean("fordisplay", "false: only root admins see the details; default true", roles=ROOT_ADMIN_ONLY),
        ),
    ),
    Command(
        name="removeResourceDetail",
        description="Deletes one detail or all details of a resource",
        handler=remove_detail,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            TYPE,
            RESOURCE,
            string("key", "the key of the detail to delete; default: all details of the resource"),
        ),
    ),
)
