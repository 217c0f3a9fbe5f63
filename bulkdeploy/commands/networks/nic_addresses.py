"""addIpToNic, removeIpFromNic, updateVmNicIp: secondary and primary addresses of NICs."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InsufficientAddresses, PermissionDenied
from bulkdeploy.services.networks import nic_addresses

SECONDARY_IP = Response(
    "nicsecondaryip",
    (
        text("id", "the secondary address"),
        text("ipaddress", "the address"),
        text("nicid", "the nic of the secondary address"),
        text("networkid", "the network of the nic"),
        text("virtualmachineid", "the VM of the nic"),
    ),
)

NIC = uuid("nicid", Entity.NIC, "the nic", required=True)


def add_ip(call: Call) -> JobTicket:
    """Add a secondary IP address to a NIC."""
    return nic_addresses.add_ip(call.connection, call.caller, call.arguments["nicid"], call.text("ipaddress"))


def remove_ip(call: Call) -> JobTicket:
    """Remove a secondary IP address from its NIC."""
    return nic_addresses.remove_ip(call.connection, call.caller, call.arguments["id"])


def change_ip(call: Call) -> JobTicket:
    """Change the primary IP address of a NIC."""
    return nic_addresses.change_ip(call.connection, call.caller, call.arguments["nicid"], call.text("ipaddress"))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="addIpToNic",
        description="Adds a secondary address to a nic. The guest is not changed.",
        handler=add_ip,
        shape=Shape.JOB,
        response=SECONDARY_IP,
        errors=(PermissionDenied, InsufficientAddresses),
        changes_state=True,
        parameters=(NIC, string("ipaddress", "the address; default: a free address of the network")),
    ),
    Command(
        name="removeIpFromNic",
        description="Removes a secondary address from its nic. The guest is not changed.",
        handler=remove_ip,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(uuid("id", Entity.SECONDARY_IP, "the secondary address", required=True),),
        unsupported={"accountid": "the account is that of the virtual machine that has the nic"},
    ),
    Command(
        name="updateVmNicIp",
        description="Changes the address of a nic of a stopped virtual machine. It takes effect at the next start.",
        handler=change_ip,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied, InsufficientAddresses),
        changes_state=True,
        parameters=(NIC, string("ipaddress", "the address; default: a free address of the network")),
    ),
)
