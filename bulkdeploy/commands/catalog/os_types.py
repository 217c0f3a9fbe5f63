"""Commands of guest OS types: list, add, update and remove."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Exclusive, boolean, string, uuid, uuids
from bulkdeploy.declare.response_fields import flag, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.services.catalog import os_types as service
from bulkdeploy.store.catalog import os_types
from bulkdeploy.store.rows.listing import Page

OS_TYPE = Response(
    "ostype",
    (
        text("id", "the OS type"),
        text("name", "the name of the OS type"),
        text("description", "the name of the OS type"),
        text("oscategoryid", "the category of the OS type"),
        text("oscategoryname", "the name of the category"),
        flag("isuserdefined", "whether an operator added the OS type"),
        flag("fordisplay", "whether users other than root admins can see the OS type"),
    ),
)
NO_DETAILS = "guest OS types have no details"


def list_os_types(call: Call) -> Page:
    """Return guest OS types. Callers other than root admins see only displayed types."""
    return os_types.list_os_types(call.connection, call.arguments, paging(call), hidden=call.caller.is_root_admin)


def add_guest_os(call: Call) -> JobTicket:
    """Add a guest OS type. The job's result is the OS type."""
    return service.add_guest_os(call.connection, call.caller, call.arguments)


def update_guest_os(call: Call) -> JobTicket:
    """Change a guest OS type that an operator added. The job's result is the OS type."""
    return service.update_guest_os(call.connection, call.caller, call.arguments["id"], call.arguments)


def remove_guest_os(call: Call) -> JobTicket:
    """Remove a guest OS type that an operator added."""
    return service.remove_guest_os(call.connection, call.caller, call.arguments["id"])


COMMANDS = (
    Command(
        name="listOsTypes",
        description="Lists guest OS types",
        handler=list_os_types,
        shape=Shape.LIST,
        response=OS_TYPE,
        parameters=(
            uuid("id", Entity.OS_TYPE, "only this OS type"),
            uuids("ids", Entity.OS_TYPE, "only these OS types"),
            string("description", "only the OS type of this name"),
            uuid("oscategoryid", Entity.OS_CATEGORY, "only OS types of this category"),
            boolean("fordisplay", "false: only hidden OS types; true: only displayed ones"),
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
    ),
    Command(
        name="addGuestOs",
        description="Adds a guest OS type",
        handler=add_guest_os,
        shape=Shape.JOB,
        response=OS_TYPE,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("oscategoryid", Entity.OS_CATEGORY, "the category of the OS type", required=True),
            string("osdisplayname", "the name of the OS type; each name exists once", required=True, rule=NAME),
            boolean("fordisplay", "whether users other than root admins can see the OS type; default: true"),
        ),
        unsupported={"name": "a guest OS type has only the name osdisplayname", "details": NO_DETAILS},
    ),
    Command(
        name="updateGuestOs",
        description="Changes a guest OS type that an operator added",
        handler=update_guest_os,
        shape=Shape.JOB,
        response=OS_TYPE,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("id", Entity.OS_TYPE, "the OS type", required=True),
            uuid("oscategoryid", Entity.OS_CATEGORY, "the new category of the OS type"),
            string("osdisplayname", "the new name of the OS type", rule=NAME),
            boolean("fordisplay", "whether users other than root admins can see the OS type"),
        ),
        unsupported={"details": NO_DETAILS},
    ),
    Command(
        name="removeGuestOs",
        description="Removes a guest OS type that an operator added. Templates with this type keep it.",
        handler=remove_guest_os,
        shape=Shape.JOB_SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.OS_TYPE, "the OS type", required=True),),
    ),
)
