"""listInstanceGroups, createInstanceGroup, updateInstanceGroup and deleteInstanceGroup."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, OWNER_FIELDS, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.virtual_machines import instance_groups as service
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines import instance_groups

INSTANCE_GROUP = Response(
    "instancegroup",
    (
        text("id", "the instance group"),
        text("name", "the name of the instance group"),
        moment("created", "the date and time of creation"),
        *OWNER_FIELDS,
        HAS_ANNOTATIONS,
    ),
)


def list_instance_groups(call: Call) -> Page:
    """Return the instance groups of the visible accounts.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return instance_groups.list_instance_groups(call.connection, visible(call), call.arguments, paging(call))


def create_instance_group(call: Call) -> Mapping[str, Any]:
    """Create an instance group, and return the group."""
    return service.create_instance_group(call.connection, call.caller, named_owner(call), call.arguments["name"])


def update_instance_group(call: Call) -> Mapping[str, Any]:
    """Rename an instance group, and return the group."""
    return service.update_instance_group(
        call.connection, call.caller, call.arguments["id"], call.text("name") or None
    )


def delete_instance_group(call: Call) -> None:
    """Delete an instance group. Its VMs are kept."""
    service.delete_instance_groups(call.connection, call.caller, [call.arguments["id"]])


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
    Command(
        name="createInstanceGroup",
        description="Creates an instance group without virtual machines",
        handler=create_instance_group,
        shape=Shape.OBJECT,
        response=INSTANCE_GROUP,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            string("name", "the name, unique among the objects of this type that the owner has", required=True),
            *FOR_OWNER,
        ),
    ),
    Command(
        name="updateInstanceGroup",
        description="Renames an instance group",
        handler=update_instance_group,
        shape=Shape.OBJECT,
        response=INSTANCE_GROUP,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.INSTANCE_GROUP, "the instance group", required=True),
            string("name", "the new name"),
        ),
    ),
    Command(
        name="deleteInstanceGroup",
        description="Deletes an instance group; its VMs stay",
        handler=delete_instance_group,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(uuid("id", Entity.INSTANCE_GROUP, "the instance group", required=True),),
    ),
)
