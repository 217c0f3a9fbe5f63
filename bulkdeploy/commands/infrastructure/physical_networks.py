"""Commands of physical networks: list, create, update and delete."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import string, strings, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, TAG
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import ResourceInUse
from bulkdeploy.services.infrastructure import physical_networks as network_service
from bulkdeploy.store.infrastructure import physical_networks
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.rows.live_rows import reader

PHYSICAL_NETWORK = Response(
    "physicalnetwork",
    (
        text("id", "the physical network"),
        text("name", "the name of the physical network"),
        text("zoneid", "the zone of the physical network"),
        text("zonename", "the zone's name"),
        text("state", "the state: Enabled or Disabled"),
        text("vlan", "the ranges of VLANs that guest networks may use"),
        text("isolationmethods", "the isolation methods of guest networks, such as VLAN"),
        text("networkspeed", "the speed of the physical network"),
        text("broadcastdomainrange", "ZONE or POD"),
        text("tags", "the tags of the physical network, separated by commas"),
    ),
)


def list_physical_networks(call: Call) -> Page:
    """Return the physical networks that match the filters."""
    return physical_networks.list_physical_networks(call.connection, call.arguments, paging(call))


def create_physical_network(call: Call) -> JobTicket:
    """Create a physical network. The job's result is the physical network."""
    (network,) = network_service.create_networks(call.connection, call.caller, [call.arguments])
    return network_service.finished_network_job(call.connection, call.caller, network, created=True)


def update_physical_network(call: Call) -> JobTicket:
    """Change a physical network. The job's result is the physical network."""
    network = call.arguments["id"]
    network_service.update_networks(call.connection, call.caller, [(network, call.arguments)])
    return network_service.finished_network_job(call.connection, call.caller, network, created=False)


def delete_physical_network(call: Call) -> JobTicket:
    """Delete a physical network that no network uses."""
    network = call.arguments["id"]
    network_service.delete_networks(call.connection, call.caller, [network])
    return network_service.deleted(call.connection, call.caller, network)


VLANS = string("vlan", "the ranges of VLANs that guest networks may use, such as 100-199,300-399", length=1024)
SPEED = string("networkspeed", "the speed of the physical network, such as 10G")
TAGS = strings("tags", "the tags of the physical network", rule=TAG)

CREATE = Command(
    name="createPhysicalNetwork",
    description="Creates a physical network in a zone. It is disabled and has the default providers.",
    handler=create_physical_network,
    shape=Shape.JOB,
    response=PHYSICAL_NETWORK,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone", required=True),
        string("name", "the name of the physical network", required=True, rule=NAME),
        VLANS,
        strings("isolationmethods", "the isolation method: VLAN (default), VXLAN, GRE, STT or L3"),
        string(
            "broadcastdomainrange",
            "the scope of the broadcast domain: ZONE (default) or POD",
            choices=("ZONE", "POD"),
        ),
        SPEED,
        TAGS,
    ),
    unsupported={"domainid": "physical networks cannot be dedicated; use dedicateZone to dedicate a whole zone"},
)

UPDATE = Command(
    name="updatePhysicalNetwork",
    description="Changes a physical network",
    handler=update_physical_network,
    shape=Shape.JOB,
    response=PHYSICAL_NETWORK,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.PHYSICAL_NETWORK, "the physical network", required=True),
        string("state", "the state: Enabled or Disabled", choices=("Enabled", "Disabled")),
        VLANS,
        SPEED,
        TAGS,
    ),
)

COMMANDS = (
    Command(
        name="listPhysicalNetworks",
        description="Lists physical networks",
        handler=list_physical_networks,
        shape=Shape.LIST,
        response=PHYSICAL_NETWORK,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.PHYSICAL_NETWORK, "only this physical network"),
            string("name", "only physical networks of this name"),
            uuid("zoneid", Entity.ZONE, "only physical networks of this zone"),
            *PAGING,
        ),
    ),
    CREATE,
    UPDATE,
    Command(
        name="deletePhysicalNetwork",
        description="Deletes a physical network with its traffic types and providers, when no network is on it",
        handler=delete_physical_network,
        shape=Shape.JOB_SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(ResourceInUse,),
        parameters=(uuid("id", Entity.PHYSICAL_NETWORK, "the physical network", required=True),),
    ),
)

NOUNS = (
    Noun(
        section="physicalnetworks",
        entity=Entity.PHYSICAL_NETWORK,
        create=CREATE,
        create_many=network_service.create_networks,
        update=UPDATE,
        update_many=network_service.update_networks,
        read=reader(Entity.PHYSICAL_NETWORK, physical_networks.FIELDS),
        key=by("zoneid", "name"),
        parent="zoneid",
    ),
)
