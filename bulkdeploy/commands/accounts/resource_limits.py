"""listResourceLimits and updateResourceLimit."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_TAGGED_LIMITS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, integer, long, string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, large_number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ADMINS
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.services.accounts import resource_limits
from bulkdeploy.services.accounts.resource_limits import HolderParameters
from bulkdeploy.store.listing import Page, cut_page

RESOURCE_LIMIT = Response(
    "resourcelimit",
    (
        *OWNER_FIELDS,
        text("resourcetype", "the resource's number"),
        text("resourcetypename", "the resource's name, such as user_vm"),
        large_number("max", "how much it may have: pieces, MiB of memory or GiB of storage; -1: no limit"),
    ),
)

HOLDER = (
    string("account", "the account; domainid says whose account it is"),
    uuid("domainid", Entity.DOMAIN, "the domain, where no account is given"),
    uuid("projectid", Entity.PROJECT, "the project"),
)


def list_resource_limits(call: Call) -> Page:
    """The limits that hold for an account, a project or a domain.

    Raises:
        InvalidParameter: there is no such account or project.
        PermissionDenied: it is outside the caller's reach.
    """
    rows = resource_limits.list_resource_limits(call.connection, call.caller, _holder(call))
    number, name = call.arguments.get("resourcetype"), call.text("resourcetypename")
    keyword = (call.text("keyword") or "").lower()
    chosen = [
        row
        for row in rows
        if (number is None or row["resourcetype"] == str(number))
        and (name is None or row["resourcetypename"] == name.lower())
        and keyword in row["resourcetypename"]
    ]
    return cut_page(chosen, paging(call))


def update_resource_limit(call: Call) -> Mapping[str, Any]:
    """Set one limit; without ``max`` there is none from now on.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as the service.
    """
    return resource_limits.update_resource_limit(
        call.connection,
        call.caller,
        _holder(call),
        call.arguments["resourcetype"],
        call.arguments.get("max", UNLIMITED),
    )


def _holder(call: Call) -> HolderParameters:
    return HolderParameters(call.text("account"), call.ref("domainid"), call.ref("projectid"))


COMMANDS = (
    Command(
        name="listResourceLimits",
        description="Lists the limits that hold for an account, a project or a domain",
        handler=list_resource_limits,
        shape=Shape.LIST,
        response=RESOURCE_LIMIT,
        errors=(PermissionDenied,),
        parameters=(
            integer("resourcetype", "only this resource, by its number"),
            string(
                "resourcetypename",
                "only this resource, by its name",
                choices=tuple(kind.wire_name for kind in ResourceType),
            ),
            *HOLDER,
            boolean("listall", "accepted and without effect: limits are those of the one who is named"),
            boolean("isrecursive", "accepted and without effect: limits are those of the one who is named"),
            *PAGING,
        ),
        unsupported={"id": "limits have no ids; resourcetype says which", "tag": NO_TAGGED_LIMITS},
    ),
    Command(
        name="updateResourceLimit",
        description="Sets a limit of an account, a project or a domain",
        handler=update_resource_limit,
        shape=Shape.OBJECT,
        response=RESOURCE_LIMIT,
        roles=ADMINS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            integer("resourcetype", "the resource, by its number", required=True),
            long("max", "how much it may have: pieces, MiB of memory or GiB of storage; -1: no limit"),
            *HOLDER,
        ),
        unsupported={"tag": NO_TAGGED_LIMITS},
    ),
)
