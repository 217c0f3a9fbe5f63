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
    "hideipaddressusage": "the usage of addresses is not recorded",
    "sourcenatipaddress": NO_ROUTERS,
}
"""Parameters of CloudStack's createNetwork and updateNetwork that are rejected, with the reasons."""

SERVERS_AND_PACKETS: tuple[Parameter, ...] = (
    string(
        "dns1",
        "the IPv4 address of the first DNS server; default: the server of the zone. The network offering must "
        "have the service Dns",
        rule=IP_ADDRESS,
        clearable=True,
    ),
    string("dns2", "the IPv4 address of the second DNS server; only with dns1", rule=IP_ADDRESS, clearable=True),
    integer(
        "publicmtu",
        "the MTU of the public side of the network, in bytes; guests are not configured with it",
        minimum=SMALLEST_MTU,
        maximum=LARGEST_MTU,
    ),
    integer(
        "privatemtu",
        "the MTU inside the network, in bytes; guests are not configured with it",
        minimum=SMALLEST_MTU,
        maximum=LARGEST_MTU,
    ),
)
"""Parameters that both createNetwork and updateNetwork have."""


def update_network(call: Call) -> JobTicket:
    """Change a network; the job's result is the network."""
    network = call.arguments["id"]
    service.update_networks(call.connection, call.caller, [(network, call.arguments)])
    return service.changed_network(call.connection, call.caller, network)


def restart_network(call: Call) -> JobTicket:
    """Record the restart of a network as an event. Nothing else happens, because networks have no routers."""
    return service.restart_network(call.connection, call.caller, call.arguments["id"])


def delete_network(call: Call) -> JobTicket:
    """Delete a network in which no VM has a NIC."""
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
        string("name", "the name of the network", required=True),
        string("displaytext", "the description; default: the name"),
        uuid("zoneid", Entity.ZONE, "the zone; it must be an Advanced zone", required=True),
        uuid("networkofferingid", Entity.NETWORK_OFFERING, "the offering of the network", required=True),
        string(
            "acltype",
            "the owner of the network: Account, or Domain for Shared networks only",
            choices=("Account", "Domain"),
        ),
        boolean(
            "subdomainaccess",
            "whether the domains below may use the network, too; only with acltype Domain; default: true",
        ),
        string("gateway", "the gateway of the network; requires netmask"),
        string("netmask", "the netmask of the network, such as 255.255.255.0"),
        string("startip", "the first IP address for VMs; required for Shared networks"),
        string("endip", "the last IP address for VMs; default: startip"),
        string("networkdomain", "the DNS domain of the network", rule=NETWORK_DOMAIN),
        Parameter("vlan", WireType.STRING, "the VLAN of the network: a number or untagged", roles=ROOT_ADMIN_ONLY),
        boolean(
            "bypassvlanoverlapcheck", "true: accept a VLAN that another network already uses", roles=ROOT_ADMIN_ONLY
        ),
        uuid(
            "physicalnetworkid",
            Entity.PHYSICAL_NETWORK,
            "the physical network; default: the first enabled one of the zone",
            roles=ROOT_ADMIN_ONLY,
        ),
        *SERVERS_AND_PACKETS,
        only_true("displaynetwork", "only true is accepted, because every network is shown"),
        *FOR_OWNER,
    ),
    unsupported={
        **NOT_OF_NETWORKS,
        **dict.fromkeys(("aclid", "vpcid"), NO_VPCS),
        **dict.fromkeys(("asnumber", "bgppeerids"), "networks are not routed by BGP"),
        **dict.fromkeys(("endipv6", "startipv6", "ip6cidr", "ip6gateway", "routeripv6"), NO_IPV6),
        **dict.fromkeys(("isolatedpvlan", "isolatedpvlantype"), "private VLANs are not supported"),
        "associatednetworkid": NOT_ASSOCIATED,
        "cidrsize": "use gateway and netmask to set the size of the network",
        "externalid": "networks have no external ids",
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
        string("name", "the new name of the network"),
        string("displaytext", "the new description of the network"),
        string(
            "networkdomain",
            "the new DNS domain, for VMs that are deployed later",
            rule=NETWORK_DOMAIN,
            clearable=True,
        ),
        *SERVERS_AND_PACKETS,
        uuid(
            "networkofferingid",
            Entity.NETWORK_OFFERING,
            "the new network offering, which must have all services of the present one",
        ),
        only_true("displaynetwork", "only true is accepted, because every network is shown"),
        boolean("forced", "accepted but ignored: a change never needs to be forced"),
    ),
    unsupported={
        **NOT_OF_NETWORKS,
        **dict.fromkeys(("changecidr", "guestvmcidr"), "the addresses of a network cannot be changed"),
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
                "Account: networks of accounts; Domain: networks of domains; AccountDomain: both; Shared: "
                "networks that the caller may use by permission; All: all of them (default)",
                choices=tuple(word.value for word in NetworkFilter),
            ),
            string("type", "only networks of this type", choices=("Isolated", "Shared", "L2")),
            string(
                "acltype", "only networks with this access type: Account or Domain", choices=("Account", "Domain")
            ),
            string("traffictype", "only networks of this traffic type; all networks have the type Guest"),
            uuid("networkofferingid", Entity.NETWORK_OFFERING, "only networks of this offering"),
            uuid(
                "physicalnetworkid",
                Entity.PHYSICAL_NETWORK,
                "only networks on this physical network",
                roles=ROOT_ADMIN_ONLY,
            ),
            boolean("issystem", "true: only networks that are reserved for the system; false: only others"),
            boolean("canusefordeploy", "true: only networks in which VMs can be deployed; false: only others"),
            strings("supportedservices", "only networks that offer all these services"),
            boolean(
                "specifyipranges",
                "true: only networks whose address ranges were set by the caller; false: only others",
            ),
            boolean("displaynetwork", "false: only hidden networks; there are none"),
            boolean("restartrequired", "true: only networks that must be restarted; no network must ever be"),
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
            boolean("cleanup", "accepted but ignored: there are no routers"),
        ),
        unsupported={"makeredundant": NO_ROUTERS, "livepatch": NO_ROUTERS},
    ),
    Command(
        name="deleteNetwork",
        description="Deletes a guest network in which no VM has a nic",
        handler=delete_network,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied, ResourceInUse),
        changes_state=True,
        parameters=(
            uuid("id", Entity.NETWORK, "the network", required=True),
            boolean("forced", "accepted but ignored: shutting down a network cannot fail"),
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
