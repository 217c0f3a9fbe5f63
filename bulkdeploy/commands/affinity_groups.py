"""listAffinityGroups and listAffinityGroupTypes."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.store import affinity_groups
from bulkdeploy.store.listing import Page, cut_page

AFFINITY_GROUP = Response(
    "affinitygroup",
    (
        text("id", "the affinity group"),
        text("name", "its name"),
        text("type", "its type, such as host anti-affinity"),
        text("description", "its description"),
        *OWNER_FIELDS,
        texts("virtualmachineIds", "the VMs in it"),
    ),
)


def list_affinity_groups(call: Call) -> Page:
    """Affinity groups of the accounts shown, and of domains they are in.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return affinity_groups.list_affinity_groups(call.connection, visible(call), call.arguments, paging(call))


def list_affinity_group_types(call: Call) -> Page:
    """The types that there are."""
    keyword = (call.text("keyword") or "").lower()
    return cut_page([{"type": kind.value} for kind in AffinityType if keyword in kind.value.lower()], paging(call))


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
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only those that this VM is in"),
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
        response=Response("affinitygrouptype", (text("type", "the type"),)),
        parameters=PAGING,
    ),
)
