"""listPods."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.capacity_fields import POD_CAPACITY
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.topology import AllocationState
from bulkdeploy.store import pods
from bulkdeploy.store.listing import Page

POD = Response(
    "pod",
    (
        text("id", "the pod"),
        text("name", "its name"),
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("gateway", "the gateway of its management network"),
        text("netmask", "the netmask of its management network"),
        texts("startip", "the first address of each of its ranges"),
        texts("endip", "the last address of each of its ranges"),
        text("allocationstate", "Enabled, or Disabled when it takes no new VMs"),
        POD_CAPACITY,
    ),
)


def list_pods(call: Call) -> Page:
    """Pods, by zone or all."""
    return pods.list_pods(call.connection, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listPods",
        description="Lists pods",
        handler=list_pods,
        shape=Shape.LIST,
        response=POD,
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("id", Entity.POD, "only this pod"),
            string("name", "only pods of this name"),
            uuid("zoneid", Entity.ZONE, "only pods of this zone"),
            string(
                "allocationstate",
                "only pods in this state",
                choices=tuple(state.value for state in AllocationState),
            ),
            boolean("showcapacities", "whether to say what each pod holds"),
            *PAGING,
        ),
    ),
)
