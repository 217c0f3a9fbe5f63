"""listAffinityGroups, listAffinityGroupTypes, createAffinityGroup, deleteAffinityGroup."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import by_id_or_name, named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import ExactlyOne, string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.services.virtual_machines import affinity_groups as service
from bulkdeploy.store.accounts.owned_entities import owned_reader
from bulkdeploy.store.accounts.owner_keys import owned_key
from bulkdeploy.store.rows.listing import Page, cut_page
from bulkdeploy.store.virtual_machines import affinity_groups

AFFINITY_GROUP = Response(
    "affinitygroup",
    (
        text("id", "the affinity group"),
        text("name", "the name of the affinity group"),
        text("type", "the type of the affinity group, such as host anti-affinity"),
        text("description", "the description of the affinity group"),
        *OWNER_FIELDS,
        texts("virtualmachineIds", "the VMs in the group"),
    ),
)


def list_affinity_groups(call: Call) -> Page:
    """Return the affinity groups of the visible accounts and of their domains.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return affinity_groups.list_affinity_groups(call.connection, visible(call), call.arguments, paging(call))


def list_affinity_group_types(call: Call) -> Page:
    """Return the supported types of affinity groups."""
    keyword = (call.text("keyword") or "").lower()
    return cut_page([{"type": kind.value} for kind in AffinityType if keyword in kind.value.lower()], paging(call))


def create_affinity_group(call: Call) -> JobTicket:
    """Create an affinity group; the job's result is the group."""
    (group,) = service.create_affinity_groups(call.connection, call.caller, [call.arguments])
    return service.finished_group_job(call.connection, call.caller, group)


def delete_affinity_group(call: Call) -> JobTicket:
    """Delete an affinity group without VMs."""
    group = by_id_or_name(call, Entity.AFFINITY_GROUP, service.NOUN)
    service.delete_affinity_groups(call.connection, call.caller, [group], named_owner(call))
    return service.deleted(call.connection, call.caller, group)


CREATE = Command(
    name="createAffinityGroup",
    description="Creates an affinity group without virtual machines",
    handler=create_affinity_group,
    shape=Shape.JOB,
    response=AFFINITY_GROUP,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        string("name", "the name, unique among the objects of this type that the owner has", required=True),
        string("type", "the type; listAffinityGroupTypes lists all types", required=True),
        string("description", "the description of the affinity group"),
        *FOR_OWNER,
    ),
)

COMMANDS = (
    Command(
        name="listAffinityGroups",
        description="Lists affinity groups with their VMs",
        handler=list_affinity_groups,
        shape=Shape.LIST,
        response=AFFINITY_GROUP,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.AFFINITY_GROUP, "only this affinity group"),
            string("name", "only affinity groups of this name"),
            string("type", "only affinity groups of this type"),
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only groups that contain this VM"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
    Command(
        name="listAffinityGroupTypes",
        description="Lists the types of affinity groups",
        handler=list_affinity_group_types,
        shape=Shape.LIST,
        response=Response(
            "affinityGroupType", (text("type", "the type of affinity groups, such as host anti-affinity"),)
        ),
        parameters=PAGING,
    ),
    CREATE,
    Command(
        name="deleteAffinityGroup",
        description="Deletes an affinity group without VMs",
        handler=delete_affinity_group,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied, ResourceInUse),
        changes_state=True,
        parameters=(
            uuid("id", Entity.AFFINITY_GROUP, "the affinity group; not with name"),
            string("name", "the name of an affinity group of the owner; not with id"),
            *FOR_OWNER,
        ),
        rules=(ExactlyOne(("id", "name")),),
    ),
)

NOUNS = (
    Noun(
        section="affinitygroups",
        entity=Entity.AFFINITY_GROUP,
        create=CREATE,
        create_many=service.create_affinity_groups,
        read=owned_reader(Entity.AFFINITY_GROUP, affinity_groups.FIELDS),
        exports=lambda row: row["type"] != AffinityType.EXPLICIT_DEDICATION,
        key=owned_key,
    ),
)
