"""Lists of things that this service never has, and that clients ask for all the same.

Libcloud's list of nodes fails where one of these commands is missing, csbench counts a missing one as a
failure; empty answers suit both.
"""

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import EVERY_ROLE, RoleType
from bulkdeploy.store.listing import Page

FOR_ADMINS = frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN})
ABSENT = {
    "listAlerts": ("alert", "alerts"),
    "listIpForwardingRules": ("ipforwardingrule", "IP forwarding rules"),
    "listPortForwardingRules": ("portforwardingrule", "port forwarding rules"),
    "listPublicIpAddresses": ("publicipaddress", "public IP addresses"),
    "listSnapshots": ("snapshot", "snapshots"),
    "listVMSnapshot": ("vmSnapshot", "VM snapshots"),
    "listVPCs": ("vpc", "VPCs"),
}


def list_nothing(call: Call) -> Page:  # noqa: ARG001 - every handler takes the call
    """An empty list."""
    return Page((), 0)


COMMANDS = tuple(
    Command(
        name=name,
        roles=FOR_ADMINS if name == "listAlerts" else EVERY_ROLE,
        description=f"Lists {noun}: there are none here, so that the list is always empty",
        handler=list_nothing,
        shape=Shape.LIST,
        response=Response(key, ()),
    )
    for name, (key, noun) in ABSENT.items()
)
