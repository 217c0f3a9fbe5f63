"""listNetworkOfferings."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, string, strings, uuid
from bulkdeploy.declare.response_fields import flag, moment, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store import network_offerings
from bulkdeploy.store.listing import Page

NETWORK_OFFERING = Response(
    "networkoffering",
    (
        text("id", "the network offering"),
        text("name", "its name"),
        text("displaytext", "its description"),
        text("guestiptype", "the type of its networks: Isolated, Shared or L2"),
        text("traffictype", "Guest"),
        text("availability", "Optional or Required"),
        flag("specifyvlan", "whether the VLAN is given when a network is made"),
        flag("isdefault", "whether it came with the installation"),
        flag("forvpc", "always false"),
        text("state", "Enabled or Disabled"),
        objects("service", "what its networks offer to VMs", (text("name", "the service, such as Dhcp"),)),
        moment("created", "when it was made"),
    ),
)


def list_network_offerings(call: Call) -> Page:
    """Network offerings; everybody may see them all."""
    return network_offerings.list_network_offerings(call.connection, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listNetworkOfferings",
        description="Lists network offerings",
        handler=list_network_offerings,
        shape=Shape.LIST,
        response=NETWORK_OFFERING,
        parameters=(
            uuid("id", Entity.NETWORK_OFFERING, "only this offering"),
            string("name", "only the offering of this name"),
            string("displaytext", "only offerings of this description"),
            string("guestiptype", "only offerings of this type", choices=("Isolated", "Shared", "L2")),
            string("traffictype", "only offerings of this traffic"),
            string("availability", "only offerings of this availability"),
            string("state", "only offerings in this state", choices=("Enabled", "Disabled")),
            boolean("isdefault", "only those that came with the installation, or only the others"),
            boolean("specifyvlan", "only those whose VLAN is given, or only the others"),
            strings("supportedservices", "only offerings with all these services"),
            *PAGING,
        ),
    ),
)
