"""Lists of things that this service never has, and that clients ask for all the same.

Libcloud's list of nodes fails where one of these commands is missing, csbench counts a missing one as a
failure, Ansible looks for an image store before it takes it away; empty answers suit them all. Whatever
filter is given, nothing is what it finds.
"""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import COUNT_ONLY, OWNER, PAGING, PROJECT, SHOW_ICON
from bulkdeploy.declare.parameters import Parameter, boolean, mapping, string, strings, uuid
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import EVERY_ROLE, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store.listing import Page, cut_page

ROLES = {
    "listAlerts": frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
    "listImageStores": ROOT_ADMIN_ONLY,
}
"""Who may ask, where not everybody may."""
A_FILTER = "a filter; whatever it says, there is nothing to find"
OWNED = (*OWNER, *PROJECT, *PAGING)

ENTITIES = {
    "networkid": Entity.NETWORK,
    "associatednetworkid": Entity.NETWORK,
    "physicalnetworkid": Entity.PHYSICAL_NETWORK,
    "storageid": Entity.STORAGE_POOL,
    "vlanid": Entity.VLAN_IP_RANGE,
    "virtualmachineid": Entity.VIRTUAL_MACHINE,
    "volumeid": Entity.VOLUME,
    "zoneid": Entity.ZONE,
}
"""Filters by ids of things that there are: an unknown one is refused, as everywhere."""

LISTS = frozenset({"ids", "vmsnapshotids", "supportedservices"})
FLAGS = frozenset(
    {
        *("allocatedonly", "fordisplay", "forloadbalancing", "forprovider", "forsystemvms", "forvirtualnetwork"),
        *("issourcenat", "isstaticnat", "readonly", "restartrequired", "showunique"),
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


ABSENT: dict[str, tuple[str, str, tuple[Parameter, ...]]] = {
    "listAlerts": ("alert", "alerts", (*_filters("id name type"), *PAGING)),
    "listImageStores": (
        "imagestore",
        "image stores",
        (*_filters("id name protocol provider readonly zoneid"), *PAGING),
    ),
    "listIpForwardingRules": (
        "ipforwardingrule",
        "IP forwarding rules",
        (*_filters("id ipaddressid virtualmachineid"), *OWNED),
    ),
    "listPortForwardingRules": (
        "portforwardingrule",
        "port forwarding rules",
        (*_filters("id ipaddressid networkid fordisplay tags"), *OWNED),
    ),
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
    "listSnapshots": (
        "snapshot",
        "snapshots",
        (
            *_filters("id ids name intervaltype locationtype snapshottype imagestoreid storageid volumeid zoneid"),
            *_filters("showunique tags"),
            *OWNED,
        ),
    ),
    "listVMSnapshot": (
        "vmSnapshot",
        "VM snapshots",
        (*_filters("vmsnapshotid vmsnapshotids name state virtualmachineid tags"), *OWNED),
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


def list_nothing(call: Call) -> Page:
    """An empty list.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    visible(call)
    return cut_page((), paging(call))


COMMANDS = tuple(
    Command(
        name=name,
        roles=ROLES.get(name, EVERY_ROLE),
        description=f"Lists {noun}: there are none here, so that the list is always empty",
        handler=list_nothing,
        shape=Shape.LIST,
        response=Response(key, ()),
        errors=(PermissionDenied,),
        parameters=parameters,
    )
    for name, (key, noun, parameters) in ABSENT.items()
)
