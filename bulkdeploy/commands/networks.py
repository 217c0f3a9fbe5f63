"""listNetworks."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import boolean, mapping, string, strings, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, TAGS, flag, moment, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store import networks
from bulkdeploy.store.listing import Page
from bulkdeploy.store.networks import NetworkFilter

NETWORK = Response(
    "network",
    (
        text("id", "the network"),
        text("name", "its name"),
        text("displaytext", "its description"),
        text("type", "Isolated, Shared or L2"),
        text("traffictype", "Guest"),
        text("acltype", "Account where one account has it, Domain where a whole domain may use it"),
        *OWNER_FIELDS,
        flag("subdomainaccess", "whether the domains below may use it, too"),
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("networkofferingid", "its network offering"),
        text("networkofferingname", "the network offering's name"),
        text("networkofferingdisplaytext", "the network offering's description"),
        text("networkofferingavailability", "the network offering's availability"),
        text("physicalnetworkid", "its physical network", ROOT_ADMIN_ONLY),
        text("cidr", "its CIDR"),
        text("gateway", "its gateway"),
        text("netmask", "its netmask"),
        text("networkdomain", "its DNS domain"),
        text("dns1", "its first DNS server"),
        text("dns2", "its second DNS server"),
        text("vlan", "its VLAN", ROOT_ADMIN_ONLY),
        text("broadcasturi", "its broadcast domain, such as vlan://100", ROOT_ADMIN_ONLY),
        text("broadcastdomaintype", "Vlan", ROOT_ADMIN_ONLY),
        text("related", "the network itself"),
        text("state", "Allocated, Setup, Implementing, Implemented, Shutdown or Destroy"),
        flag("isdefault", "whether VMs of its zone get it where they name none"),
        flag("issystem", "whether only the system uses it"),
        flag("canusefordeploy", "whether a deployment may name it"),
        flag("specifyipranges", "whether its addresses are given as ranges"),
        flag("specifyvlan", "whether its VLAN is given when it is made"),
        flag("ispersistent", "always false"),
        flag("restartrequired", "always false"),
        flag("displaynetwork", "always true"),
        objects("service", "what it offers to VMs", (text("name", "the service, such as Dhcp"),)),
        TAGS,
        moment("created", "when it was made"),
    ),
)


def list_networks(call: Call) -> Page:
    """The networks that the accounts shown own, and those that they may use.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    shown = NetworkFilter(call.arguments.get("networkfilter", NetworkFilter.ALL))
    return networks.list_networks(call.connection, visible(call), call.arguments, paging(call), shown)


COMMANDS = (
    Command(
        name="listNetworks",
        description="Lists the networks that the caller may use",
        handler=list_networks,
        shape=Shape.LIST,
        response=NETWORK,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.NETWORK, "only this network"),
            string("name", "only networks of this name"),
            uuid("zoneid", Entity.ZONE, "only networks of this zone"),
            string(
                "networkfilter",
                "accounts' own, those of domains, both, or shared ones; default All",
                choices=tuple(word.value for word in NetworkFilter),
            ),
            string("type", "only networks of this type", choices=("Isolated", "Shared", "L2")),
            string("acltype", "only networks of this access", choices=("Account", "Domain")),
            string("traffictype", "only networks of this traffic; all here are Guest"),
            uuid("networkofferingid", Entity.NETWORK_OFFERING, "only networks of this offering"),
            uuid(
                "physicalnetworkid",
                Entity.PHYSICAL_NETWORK,
                "only networks on this physical network",
                roles=ROOT_ADMIN_ONLY,
            ),
            boolean("issystem", "only those that only the system uses, or only the others"),
            boolean("canusefordeploy", "only those that a deployment may name, or only the others"),
            strings("supportedservices", "only networks that offer all these services"),
            mapping("tags", "only networks with these tags: tags[0].key, tags[0].value"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
)
