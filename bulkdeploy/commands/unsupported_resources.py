"""List commands of resources that this service does not have.

They return empty lists, because clients call them.

libcloud's list of nodes fails if one of these commands is missing, csbench counts a missing command as a failure,
and CloudStack's own UI calls some of them on its first pages. Filters are accepted and ignored.
"""

from bulkdeploy.commands.call import Call, OpenCall
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import COUNT_ONLY, OWNER, PAGING, PROJECT, SHOW_ICON
from bulkdeploy.declare.parameters import Parameter, boolean, mapping, string, strings, uuid
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store.rows.listing import Page, cut_page

INFRASTRUCTURE = frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN})
ROLES = dict.fromkeys(
    (
        *("listGuestOsMapping", "listInternalLoadBalancerVMs"),
        *("listRouters", "listStorageNetworkIpRange", "listSystemVms"),
    ),
    INFRASTRUCTURE,
) | dict.fromkeys(("listBaremetalDhcp", "listGpuCards", "listVgpuProfiles"), ROOT_ADMIN_ONLY)
"""The role types that may call a command, if not all may."""
AUTHORIZED = {
    "listKubernetesClusters": EVERY_ROLE,
    "listResourceIcon": EVERY_ROLE,
}
"""The role types that may call a command if no rule of their role matches it."""
MENUS = frozenset(
    {
        *("listGpuCards", "listGpuDevices", "listGuiThemes", "listVgpuProfiles"),
        *("listAutoScaleVmGroups", "listGuestOsMapping", "listInternalLoadBalancerVMs", "listKubernetesClusters"),
        *("listLdapConfigurations", "listOauthProvider", "listPublicIpAddresses", "listRouters", "listSystemVms"),
        "listVPCs",
    }
)
"""Lists for which CloudStack's UI shows a page if listApis contains them. Other clients call them in any case."""

A_FILTER = "accepted but ignored: the list is always empty"
OWNED = (*OWNER, *PROJECT, *PAGING)
ENVELOPES = {"listLdapConfigurations": "ldapconfigurationresponse"}

ENTITIES = {
    "accountid": Entity.ACCOUNT,
    "associatednetworkid": Entity.NETWORK,
    "clusterid": Entity.CLUSTER,
    "domainid": Entity.DOMAIN,
    "hostid": Entity.HOST,
    "networkid": Entity.NETWORK,
    "ostypeid": Entity.OS_TYPE,
    "physicalnetworkid": Entity.PHYSICAL_NETWORK,
    "podid": Entity.POD,
    "storageid": Entity.STORAGE_POOL,
    "userid": Entity.USER,
    "vlanid": Entity.VLAN_IP_RANGE,
    "virtualmachineid": Entity.VIRTUAL_MACHINE,
    "volumeid": Entity.VOLUME,
    "zoneid": Entity.ZONE,
}
"""Filters by ids of existing types of objects. An unknown id is rejected, as for other commands."""

LISTS = frozenset({"ids", "resourceids", "supportedservices"})
FLAGS = frozenset(
    {
        *("activeonly", "listonlydefaulttheme", "showpublic", "showremoved"),
        *("allocatedonly", "fetchhealthcheckresults", "fordisplay", "forloadbalancing", "forprovider"),
        *("forsystemvms", "forvirtualnetwork", "forvpc", "healthchecksfailed", "issourcenat", "isstaticnat"),
        *("listall", "readonly", "restartrequired", "showunique"),
    }
)


def _filters(names: str) -> tuple[Parameter, ...]:
    return tuple(_filter(name) for name in names.split())


def _filter(name: str) -> Parameter:
    if name in ENTITIES:
        return uuid(name, ENTITIES[name], A_FILTER)
    if name == "tags":
        return mapping(name, A_FILTER)
    if name in LISTS:
        return strings(name, A_FILTER)
    return boolean(name, A_FILTER) if name in FLAGS else string(name, A_FILTER)


RULES = "id ipaddressid networkid fordisplay tags"
OF_APPLIANCES = "id name hostid networkid podid zoneid state vpcid forvpc fetchhealthcheckresults"

ABSENT: dict[str, tuple[str, str, tuple[Parameter, ...]]] = {
    "listAutoScaleVmGroups": (
        "autoscalevmgroup",
        "autoscale groups",
        (*_filters("id name fordisplay lbruleid policyid vmprofileid zoneid"), *OWNED),
    ),
    "listEgressFirewallRules": ("firewallrule", "egress firewall rules", (*_filters(RULES), *OWNED)),
    "listFirewallRules": ("firewallrule", "firewall rules", (*_filters(RULES), *OWNED)),
    "listGuestOsMapping": (
        "guestosmapping",
        "mappings of guest OS types to hypervisors' own",
        (
            *_filters("id hypervisor hypervisorversion osdisplayname osnameforhypervisor ostypeid"),
            *PAGING,
        ),
    ),
    "listInternalLoadBalancerVMs": (
        "internalloadbalancervm",
        "load balancers",
        (*_filters(OF_APPLIANCES), *OWNED),
    ),
    "listBaremetalDhcp": (
        "baremetaldhcp",
        "DHCP servers of physical machines",
        (*_filters("dhcpservertype id physicalnetworkid"), *PAGING),
    ),
    "listGpuCards": (
        "gpucard",
        "models of graphics cards",
        (*_filters("id activeonly deviceid devicename vendorid vendorname"), *PAGING),
    ),
    "listGpuDevices": (
        "gpudevice",
        "graphics cards of hosts",
        (*_filters("id gpucardid hostid vgpuprofileid virtualmachineid"), *PAGING),
    ),
    "listVgpuProfiles": (
        "vgpuprofile",
        "shares of graphics cards",
        (*_filters("id activeonly gpucardid name"), *PAGING),
    ),
    "listIpForwardingRules": (
        "ipforwardingrule",
        "IP forwarding rules",
        (*_filters("id ipaddressid virtualmachineid"), *OWNED),
    ),
    "listKubernetesClusters": (
        "kubernetescluster",
        "Kubernetes clusters",
        (*_filters("id name clustertype state"), *OWNED),
    ),
    "listLdapConfigurations": (
        "LdapConfiguration",
        "LDAP servers",
        (*_filters("id hostname port domainid listall"), *PAGING),
    ),
    "listLoadBalancerRules": (
        "loadbalancerrule",
        "load balancer rules",
        (*_filters("id name fordisplay networkid publicipid virtualmachineid zoneid tags"), *OWNED),
    ),
    "listPortForwardingRules": ("portforwardingrule", "port forwarding rules", (*_filters(RULES), *OWNED)),
    "listPublicIpAddresses": (
        "publicipaddress",
        "public IP addresses",
        (
            *_filters("id ipaddress state zoneid networkid associatednetworkid physicalnetworkid vlanid vpcid"),
            *_filters("allocatedonly forloadbalancing forprovider forsystemvms forvirtualnetwork issourcenat"),
            *_filters("isstaticnat fordisplay tags"),
            COUNT_ONLY,
            *OWNED,
        ),
    ),
    "listResourceIcon": ("icon", "icons of resources", _filters("resourceids resourcetype")),
    "listRouters": (
        "router",
        "virtual routers",
        (*_filters(f"{OF_APPLIANCES} arch clusterid healthchecksfailed version"), *OWNED),
    ),
    "listSslCerts": ("sslcert", "TLS certificates", (*_filters("accountid certid lbruleid"), *PROJECT)),
    "listStorageNetworkIpRange": (
        "storagenetworkiprange",
        "addresses of storage networks",
        (*_filters("id podid zoneid"), *PAGING),
    ),
    "listSystemVms": (
        "systemvm",
        "system VMs",
        (*_filters("id name arch hostid podid zoneid state storageid systemvmtype"), *PAGING),
    ),
    "listVPCs": (
        "vpc",
        "VPCs",
        (
            *_filters("id name displaytext cidr state vpcofferingid zoneid restartrequired supportedservices"),
            *_filters("fordisplay tags"),
            SHOW_ICON,
            *OWNED,
        ),
    ),
}

UNSUPPORTED_AT_LOGIN: dict[str, tuple[str, str, tuple[Parameter, ...]]] = {
    "listGuiThemes": (
        "guiThemes",
        "themes of a user interface",
        (
            # strings, because checking a uuid would reveal whether the object exists
            *(string(name, A_FILTER) for name in ("accountid", "domainid")),
            *_filters("id commonname listall listonlydefaulttheme name showpublic showremoved"),
            *PAGING,
        ),
    ),
    "listIdps": ("idp", "SAML identity providers", ()),
    "listOauthProvider": ("oauthprovider", "OAuth providers", (*_filters("id provider"), *PAGING)),
}
"""Commands that CloudStack's UI calls before the login."""


def list_nothing(call: Call) -> Page:
    """Return an empty list, after checking the owner and paging parameters of the call.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    visible(call)
    return cut_page((), paging(call))


def list_nothing_to_anybody(call: OpenCall) -> Page:
    """Return an empty list for callers without credentials."""
    del call
    return Page((), 0)


COMMANDS = (
    *(
        Command(
            name=name,
            roles=ROLES.get(name, EVERY_ROLE),
            authorized=AUTHORIZED.get(name, frozenset()),
            described=name not in MENUS,
            description=f"Lists {noun}. The list is always empty, because the service does not have them",
            handler=list_nothing,
            shape=Shape.LIST,
            response=Response(key, ()),
            envelope=ENVELOPES.get(name),
            errors=(PermissionDenied,),
            parameters=parameters,
        )
        for name, (key, noun, parameters) in ABSENT.items()
    ),
    *(
        Command(
            name=name,
            description=f"Lists {noun}. The list is always empty, because the service does not have them",
            handler=list_nothing_to_anybody,
            shape=Shape.LIST,
            response=Response(key, ()),
            parameters=parameters,
            described=name not in MENUS,
            open=True,
        )
        for name, (key, noun, parameters) in UNSUPPORTED_AT_LOGIN.items()
    ),
)
