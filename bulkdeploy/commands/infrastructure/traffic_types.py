"""Commands of the traffic types of physical networks: list, add, update and delete."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import ResourceInUse
from bulkdeploy.domain.networks.network_services import TrafficType
from bulkdeploy.services.infrastructure import traffic_types as type_service
from bulkdeploy.services.infrastructure.traffic_types import LABELS
from bulkdeploy.store.infrastructure import physical_networks
from bulkdeploy.store.rows.listing import Page

TRAFFIC_TYPE = Response(
    "traffictype",
    (
        text("id", "the traffic type"),
        text("traffictype", "the type of traffic, such as Guest"),
        text("physicalnetworkid", "the physical network of the traffic type"),
        text("vlan", "the VLAN that was set when the traffic type was added; it has no effect"),
        text("isolationmethods", "the isolation methods of the physical network"),
        *(
            text(label, "the bridge or switch for this traffic on hosts of the hypervisor in the name")
            for label in LABELS
        ),
    ),
)


def list_traffic_types(call: Call) -> Page:
    """Return the traffic types of physical networks that match the filters."""
    return physical_networks.list_traffic_types(call.connection, call.arguments, paging(call))


def add_traffic_type(call: Call) -> JobTicket:
    """Add a traffic type to a physical network."""
    return type_service.add_type(call.connection, call.caller, call.arguments)


def update_traffic_type(call: Call) -> JobTicket:
    """Change the bridges that carry a traffic type. The job's result is the traffic type."""
    return type_service.update_type(call.connection, call.caller, call.arguments["id"], call.arguments)


def delete_traffic_type(call: Call) -> JobTicket:
    """Remove a traffic type from a physical network."""
    traffic_type = call.arguments["id"]
    type_service.delete_types(call.connection, call.caller, [traffic_type])
    return type_service.deleted(call.connection, call.caller, traffic_type)


LABEL_PARAMETERS = tuple(
    string(label, "the bridge or switch for this traffic on hosts of the hypervisor in the name")
    for label in LABELS
)

COMMANDS = (
    Command(
        name="listTrafficTypes",
        description="Lists the traffic types of physical networks",
        handler=list_traffic_types,
        shape=Shape.LIST,
        response=TRAFFIC_TYPE,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("physicalnetworkid", Entity.PHYSICAL_NETWORK, "only traffic types of this physical network"),
            *PAGING,
        ),
    ),
    Command(
        name="addTrafficType",
        description="Adds a traffic type to a physical network",
        handler=add_traffic_type,
        shape=Shape.JOB,
        response=TRAFFIC_TYPE,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("physicalnetworkid", Entity.PHYSICAL_NETWORK, "the physical network", required=True),
            string(
                "traffictype",
                "the type of traffic",
                required=True,
                choices=tuple(kind.value for kind in TrafficType),
            ),
            *LABEL_PARAMETERS,
            string(
                "vlan",
                "a VLAN that is stored and returned but has no effect; the VLAN of a network is used instead",
            ),
        ),
        unsupported={
            "isolationmethod": "the isolation method is set on the physical network",
        },
    ),
    Command(
        name="updateTrafficType",
        description="Changes the bridges of a traffic type",
        handler=update_traffic_type,
        shape=Shape.JOB,
        response=TRAFFIC_TYPE,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.TRAFFIC_TYPE, "the traffic type", required=True), *LABEL_PARAMETERS),
    ),
    Command(
        name="deleteTrafficType",
        description="Removes a traffic type from a physical network",
        handler=delete_traffic_type,
        shape=Shape.JOB_SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(ResourceInUse,),
        parameters=(uuid("id", Entity.TRAFFIC_TYPE, "the traffic type", required=True),),
    ),
)
