"""listNetworks, createNetwork, updateNetwork, restartNetwork, deleteNetwork."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.networks.responses import NETWORK
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_CUSTOM_IDS, NO_IPV6, NO_ROUTERS, NO_VPCS
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import COUNT_ONLY, OWNER, PAGING, PROJECT, SHOW_ICON
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import (
    Parameter,
    WireType,
    boolean,
    integer,
    mapping,
    only_true,
    string,
    strings,
    uuid,
)
from bulkdeploy.declare.responses import Shape
from bulkdeploy.declare.value_rules import IP_ADDRESS, NETWORK_DOMAIN
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InsufficientVlans, PermissionDenied, ResourceInUse, ResourceLimitExceeded
from bulkdeploy.domain.networks.guest_networks import LARGEST_MTU, SMALLEST_MTU
from bulkdeploy.services.network_creation import create_networks
from bulkdeploy.services.networks import networks as service
from bulkdeploy.store.networks import networks
from bulkdeploy.store.networks.network_changes import read_networks
from bulkdeploy.store.networks.networks import NetworkFilter
from bulkdeploy.store.rows.listing import Page


def list_networks(call: Call) -> Page:
    """Return the networks that the visible accounts own or may use.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    shown = NetworkFilter(call.arguments.get("networkfilter", NetworkFilter.ALL))
    return networks.list_networks(
        call.connection, visible(call, project_wins=True), call.arguments, paging(call), shown
    )


def create_network(call: Call) -> Mapping[str, Any]:
    """Create a network, and return the network."""
    (network,) = create_networks(call.connection, call.caller, [call.arguments])
    return service.network_row(call.connection, call.caller, network)


NOT_ASSOCIATED = "networks are not associated with one another"
NOT_OF_NETWORKS = {
    **dict.fromkeys(("ip6dns1", "ip6dns2"), NO_IPV6),
    "hideipaddressusage": "the use of addresses is not recorded",
    "sourcenatipaddress": NO_ROUTERS,
}
"""Parameters that both createNetwork and updateNetwork have in CloudStack, and why they are refused."""

SERVERS_AND_PACKETS: tuple[Parameter, ...] = (
    string(
        "dns1",
        "its first DNS server, an IPv4 address, instead of its zone's; its offering has service Dns",
        rule=IP_ADDRESS,
        clearable=True,
    ),
    string("dns2", "its second DNS server; with dns1", rule=IP_ADDRESS, clearable=True),
    integer(
        "publicmtu",
        "the largest packets to the outside, bytes; guests do not get it",
        minimum=SMALLEST_MTU,
        maximum=LARGEST_MTU,
    ),
    integer(
        "privatemtu",
        "the largest packets within, bytes; guests do not get it",
        minimum=SMALLEST_MTU,
        maximum=LARGEST_MTU,
    ),
)
"""Parameters that both createNetwork and updateNetwork take."""


def update_network(call: Call) -> JobTicket:
    """Change a network; the job's result is the network."""
    network = call.arguments["id"]
    service.update_networks(call.connection, call.caller, [(network, call.arguments)])
    return service.changed_network(call.connection, call.caller, network)


def restart_network(call: Call) -> JobTicket:
    """Record the restart of a network as an event.

    Nothing else happens, because no appliance serves the network.
    """
    return service.restart_network(call.connection, call.caller, call.arguments["id"])


def delete_network(call: Call) -> JobTicket:
    """Delete a network."""
    network = call.arguments["id"]
    service.delete_networks(call.connection, call.caller, [network])
    return service.deleted_network(call.connection, call.caller, network)


CREATE = Command(
    name="createNetwork",
    description="Creates a guest network",
    handler=create_network,
    shape=Shape.OBJECT,
    response=NETWORK,
    errors=(PermissionDenied, ResourceLimitExceeded, InsufficientVlans),
    changes_state=True,
    parameters=(
        string("name", "its name", required=True),
        string("displaytext", "the description; default: the name"),
        uuid("zoneid", Entity.ZONE, "the zone; it must be an Advanced zone", required=True),
        uuid("networkofferingid", Entity.NETWORK_OFFERING, "its network offering", required=True),
        string(
            "acltype",
            "the owner of the network: Account, or Domain for Shared networks only",
            choices=("Account", "Domain"),
        ),
        boolean("subdomainaccess", "with acltype Domain: the domains below may use it, too; default true"),
        string("gateway", "its gateway; with netmask"),
        string("netmask", "its netmask, such as 255.255.255.0"),
        string("startip", "the first address that VMs get; Shared networks need it"),
        string("endip", "the last address for VMs; default: startip"),
        string("networkdomain", "its DNS domain", rule=NETWORK_DOMAIN),
        Parameter("vlan", WireType.STRING, "its VLAN, a number or untagged", roles=ROOT_ADMIN_ONLY),
        boolean("bypassvlanoverlapcheck", "accept a VLAN that another network has", roles=ROOT_ADMIN_ONLY),
        uuid(
            "physicalnetworkid",
            Entity.PHYSICAL_NETWORK,
            "the physical network; default: the first enabled one of the zone",
            roles=ROOT_ADMIN_ONLY,
        ),
        *SERVERS_AND_PACKETS,
        only_true("displaynetwork", "true, as every network is shown"),
        *FOR_OWNER,
    ),
    unsupported={
        **NOT_OF_NETWORKS,
        **dict.fromkeys(("aclid", "vpcid"), NO_VPCS),
        **dict.fromkeys(("asnumber", "bgppeerids"), "networks are not routed by BGP"),
        **dict.fromkeys(("endipv6", "startipv6", "ip6cidr", "ip6gateway", "routeripv6"), NO_IPV6),
        **dict.fromkeys(("isolatedpvlan", "isolatedpvlantype"), "VLANs are not divided into private ones"),
        "associatednetworkid": NOT_ASSOCIATED,
        "cidrsize": "gateway and netmask say how large it is",
        "externalid": "networks are known by the service's own ids",
        "routerip": NO_ROUTERS,
        "tungstenvirtualrouteruuid": "there is no Tungsten Fabric",
    },
)

UPDATE = Command(
    name="updateNetwork",
    description="Changes names, DNS, packet sizes or the offering of a guest network",
    handler=update_network,
    shape=Shape.JOB,
    response=NETWORK,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        uuid("id", Entity.NETWORK, "the network", required=True),
        string("name", "its new name"),
        string("displaytext", "its new description"),
        string(
            "networkdomain",
            "the new DNS domain, for VMs that are deployed later",
            rule=NETWORK_DOMAIN,
            clearable=True,
        ),
        *SERVERS_AND_PACKETS,
        uuid("networkofferingid", Entity.NETWORK_OFFERING, "its new offering, with all services of its present"),
        only_true("displaynetwork", "true, as every network is shown"),
        boolean("forced", "accepted without effect: nothing prevents the change"),
    ),
    unsupported={
        **NOT_OF_NETWORKS,
        **dict.fromkeys(("changecidr", "guestvmcidr"), "a network keeps its addresses"),
        "customid": NO_CUSTOM_IDS,
        "updateinsequence": NO_ROUTERS,
    },
)

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
                "accounts' own, those of domains, both, those by permission (Shared), or All, the default",
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
            boolean(
                "specifyipranges",
                "only networks whose addresses were chosen by the caller (true) or others (false)",
            ),
            boolean("displaynetwork", "false: only hidden networks; there are none"),
            boolean("restartrequired", "true: only networks that must be restarted; none ever must"),
            string("vlan", "only networks of this VLAN"),
            COUNT_ONLY,
            SHOW_ICON,
            mapping("tags", "only networks with these tags: tags[0].key, tags[0].value"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
        unsupported={"associatednetworkid": NOT_ASSOCIATED, "forvpc": NO_VPCS, "vpcid": NO_VPCS},
    ),
    CREATE,
    UPDATE,
    Command(
        name="restartNetwork",
        description="Restarts the routers of a guest network. Has no effect, because there are no routers.",
        handler=restart_network,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.NETWORK, "the network", required=True),
            boolean("cleanup", "accepted without effect: there are no routers"),
        ),
        unsupported={"makeredundant": NO_ROUTERS, "livepatch": NO_ROUTERS},
    ),
    Command(
        name="deleteNetwork",
        description="Deletes a guest network that no VM has a nic in",
        handler=delete_network,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied, ResourceInUse),
        changes_state=True,
        parameters=(
            uuid("id", Entity.NETWORK, "the network", required=True),
            boolean("forced", "delete it even if taking it down fails; there is nothing that could"),
        ),
    ),
)

NOUNS = (
    Noun(
        section="networks",
        entity=Entity.NETWORK,
        create=CREATE,
        create_many=create_networks,
        update=UPDATE,
        update_many=service.update_networks,
        read=read_networks,
        key=by("zoneid", "name", "account"),
        parent="zoneid",
        more=(boolean("isdefault", "whether it is the network of deployments that name none"),),
    ),
)
