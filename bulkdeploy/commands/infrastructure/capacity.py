"""listCapacity: the total and used capacity of zones, pods and clusters."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.responses import CAPACITY_FIELDS
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Parameter, boolean, integer, string, uuid
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.capacity import CapacityLevel
from bulkdeploy.store.ledger import capacity
from bulkdeploy.store.rows.listing import Page

PAGE_ONLY: tuple[Parameter, ...] = tuple(parameter for parameter in PAGING if parameter.name != "keyword")


def list_capacity(call: Call) -> Page:
    """Return the capacity of zones, or of a pod or cluster if the call names one."""
    level = CapacityLevel.ZONE
    if "podid" in call.arguments:
        level = CapacityLevel.POD
    if "clusterid" in call.arguments:
        level = CapacityLevel.CLUSTER
    places = capacity.place_ids(
        call.connection,
        level,
        zone_id=call.ref_id("zoneid"),
        pod_id=call.ref_id("podid"),
        cluster_id=call.ref_id("clusterid"),
    )
    return capacity.list_capacity(
        call.connection,
        level,
        places,
        paging(call),
        kind=call.arguments.get("type"),
        by_usage="sortby" in call.arguments,
    )


COMMANDS = (
    Command(
        name="listCapacity",
        description="Lists total and used capacity of zones, a pod or a cluster, by type of capacity",
        handler=list_capacity,
        shape=Shape.LIST,
        response=Response("capacity", CAPACITY_FIELDS),
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("zoneid", Entity.ZONE, "only this zone"),
            uuid("podid", Entity.POD, "the pod whose capacity is listed, instead of zones"),
            uuid("clusterid", Entity.CLUSTER, "the cluster whose capacity is listed, instead of zones"),
            integer(
                "type",
                "only this type: 0 memory, 1 CPU, 2 used storage, 3 allocated storage, 8 addresses, "
                "9 local storage, 90 cores",
            ),
            boolean("fetchlatest", "accepted but ignored: the response is always current"),
            string(
                "sortby", "usage: rows with the highest percentage of used capacity come first", choices=("usage",)
            ),
            *PAGE_ONLY,
        ),
        unsupported={
            "keyword": "capacities have no name or description",
            "tag": "capacity is not counted per tag",
        },
    ),
)
