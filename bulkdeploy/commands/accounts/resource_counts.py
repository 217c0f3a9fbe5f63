"""updateResourceCount: the recalculation of resource counts."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.unsupported import NO_TAGGED_LIMITS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import integer, string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, large_number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ADMINS
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.accounts.resource_counts import update_resource_count as recount
from bulkdeploy.services.accounts.resource_limits import HolderParameters
from bulkdeploy.store.rows.listing import Page


def update_resource_count(call: Call) -> Page:
    """Recalculate the resource counts of an account, a project or a domain, and return the counts.

    Raises:
        InvalidParameter, PermissionDenied: the account, project or domain does not exist or is outside the caller's
            reach.
    """
    requested = HolderParameters(call.text("account"), call.ref("domainid"), call.ref("projectid"))
    rows = recount(call.connection, call.caller, requested, call.arguments.get("resourcetype"))
    return Page(rows, len(rows))


COMMANDS = (
    Command(
        name="updateResourceCount",
        description=(
            "Counts the resources of an account, a project or all accounts of a domain again and stores the result"
        ),
        handler=update_resource_count,
        shape=Shape.LIST,
        response=Response(
            "resourcecount",
            (
                *OWNER_FIELDS,
                text("resourcetype", "the resource's number"),
                text("resourcetypename", "the resource's name, such as user_vm"),
                large_number(
                    "resourcecount", "the used amount: a number of objects, MiB of memory or GiB of storage"
                ),
            ),
        ),
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            uuid(
                "domainid",
                Entity.DOMAIN,
                "the domain whose resources are counted or, with account, the domain of the account",
                required=True,
            ),
            string(
                "account", "the name of the account; default: all accounts in the domain and in the domains below"
            ),
            uuid("projectid", Entity.PROJECT, "the project"),
            integer("resourcetype", "the number of the resource type; default: all types"),
        ),
        unsupported={"tag": NO_TAGGED_LIMITS},
    ),
)
