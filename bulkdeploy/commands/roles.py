"""listRoles."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import flag, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store import roles
from bulkdeploy.store.listing import Page


def list_roles(call: Call) -> Page:
    """The roles that accounts may have."""
    return roles.list_roles(call.connection, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listRoles",
        description="Lists the roles that accounts may have",
        handler=list_roles,
        shape=Shape.LIST,
        response=Response(
            "role",
            (
                text("id", "the role"),
                text("name", "its name"),
                text("type", "Admin, ResourceAdmin, DomainAdmin or User"),
                text("description", "its description"),
                flag("isdefault", "whether it came with the installation"),
                moment("created", "when it was made"),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.ROLE, "only this role"),
            string("name", "only roles of this name"),
            string("type", "only roles of this type", choices=tuple(kind.value for kind in RoleType)),
            *PAGING,
        ),
    ),
)
