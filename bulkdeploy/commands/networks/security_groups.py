"""listSecurityGroups, createSecurityGroup, updateSecurityGroup, deleteSecurityGroup."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.networks.responses import SECURITY_GROUP
from bulkdeploy.commands.ownership import by_id_or_name, named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import ExactlyOne, mapping, string, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.networks import security_groups as service
from bulkdeploy.store.accounts.owned_entities import owned_reader
from bulkdeploy.store.accounts.owner_keys import owned_key
from bulkdeploy.store.networks import security_groups
from bulkdeploy.store.rows.listing import Page


def list_security_groups(call: Call) -> Page:
    """Return security groups with their rules and VMs.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return security_groups.list_security_groups(call.connection, visible(call), call.arguments, paging(call))


def create_security_group(call: Call) -> Mapping[str, Any]:
    """Create a security group without rules, and return the group."""
    (group,) = service.create_security_groups(call.connection, call.caller, [call.arguments])
    return service.security_group_row(call.connection, call.caller, group)


def update_security_group(call: Call) -> Mapping[str, Any]:
    """Rename a security group, and return the group."""
    group = call.arguments["id"]
    service.update_security_groups(call.connection, call.caller, [(group, call.arguments)])
    return service.security_group_row(call.connection, call.caller, group)


def delete_security_group(call: Call) -> None:
    """Delete a security group that no VM and no rule of another group uses."""
    group = by_id_or_name(call, Entity.SECURITY_GROUP, service.NOUN)
    service.delete_security_groups(call.connection, call.caller, [group], named_owner(call))


CREATE = Command(
    name="createSecurityGroup",
    description="Creates a security group without rules",
    handler=create_security_group,
    shape=Shape.OBJECT,
    response=SECURITY_GROUP,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        string("name", "the name, unique among the objects of this type that the owner has", required=True),
        string("description", "the description of the security group"),
        *FOR_OWNER,
    ),
)

UPDATE = Command(
    name="updateSecurityGroup",
    description="Renames a security group",
    handler=update_security_group,
    shape=Shape.OBJECT,
    response=SECURITY_GROUP,
    roles=ROOT_ADMIN_ONLY,
    authorized=ROOT_ADMIN_ONLY,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        uuid("id", Entity.SECURITY_GROUP, "the security group", required=True),
        string("name", "the new name"),
    ),
    unsupported={"customid": NO_CUSTOM_IDS},
)

COMMANDS = (
    Command(
        name="listSecurityGroups",
        description="Lists security groups with their rules and VMs",
        handler=list_security_groups,
        shape=Shape.LIST,
        response=SECURITY_GROUP,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.SECURITY_GROUP, "only this security group"),
            string("securitygroupname", "only security groups of this name"),
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only groups that contain this VM"),
            mapping("tags", "only objects with these tags: tags[0].key, tags[0].value"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
    CREATE,
    UPDATE,
    Command(
        name="deleteSecurityGroup",
        description="Deletes a security group. No VM may be in the group, and no rule of another group may name it",
        handler=delete_security_group,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied, ResourceInUse),
        changes_state=True,
        parameters=(
            uuid("id", Entity.SECURITY_GROUP, "the security group; not with name"),
            string("name", "the name of a security group of the owner; not with id"),
            *FOR_OWNER,
        ),
        rules=(ExactlyOne(("id", "name")),),
    ),
)

NOUNS = (
    Noun(
        section="securitygroups",
        entity=Entity.SECURITY_GROUP,
        create=CREATE,
        create_many=service.create_security_groups,
        update=UPDATE,
        update_many=service.update_security_groups,
        read=owned_reader(Entity.SECURITY_GROUP, security_groups.FIELDS),
        key=owned_key,
    ),
)
