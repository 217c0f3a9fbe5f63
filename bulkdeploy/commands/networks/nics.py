"""listNics, addNicToVirtualMachine, removeNicFromVirtualMachine, updateDefaultNicForVirtualMachine."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_DHCP_OPTIONS
from bulkdeploy.commands.virtual_machines.responses import NIC_FIELDS, VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Parameter, boolean, string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InsufficientAddresses, PermissionDenied
from bulkdeploy.services.networks import nics
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.networks import nics as store
from bulkdeploy.store.rows.listing import Page

NIC = Response("nic", (*NIC_FIELDS, text("virtualmachineid", "the VM of the nic")))


def list_nics(call: Call) -> Page:
    """Return the NICs of a VM.

    Raises:
        PermissionDenied: the caller may not see the VM.
    """
    vm = call.arguments["virtualmachineid"]
    row = store.read_vm(call.connection, vm.id)
    require_access(call.connection, call.caller, row.account_id, f"virtual machine {vm.uuid}")
    return store.list_nics(call.connection, vm.id, call.arguments, paging(call))


def add_nic(call: Call) -> JobTicket:
    """Add a NIC to a VM; the job's result is the VM."""
    arguments = call.arguments
    return nics.add_nic(
        call.connection,
        call.system,
        call.caller,
        arguments["virtualmachineid"],
        arguments["networkid"],
        call.text("ipaddress"),
        call.text("macaddress"),
    )


def remove_nic(call: Call) -> JobTicket:
    """Remove a NIC from a VM; the job's result is the VM."""
    return nics.remove_nic(
        call.connection,
        call.system,
        call.caller,
        call.arguments["virtualmachineid"],
        call.arguments["nicid"],
    )


def make_default_nic(call: Call) -> JobTicket:
    """Make a NIC the default NIC of its VM; the job's result is the VM."""
    return nics.make_default_nic(
        call.connection, call.caller, call.arguments["virtualmachineid"], call.arguments["nicid"]
    )


OF_VM = uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM", required=True)
ONE_NIC: tuple[Parameter, ...] = (OF_VM, uuid("nicid", Entity.NIC, "the NIC", required=True))

COMMANDS: tuple[Command, ...] = (
    Command(
        name="listNics",
        description="Lists the nics of a virtual machine",
        handler=list_nics,
        shape=Shape.LIST,
        response=NIC,
        errors=(PermissionDenied,),
        parameters=(
            OF_VM,
            uuid("nicid", Entity.NIC, "only this nic"),
            uuid("networkid", Entity.NETWORK, "only the nic in this network"),
            boolean("fordisplay", "false: only hidden nics; there are none"),
            *PAGING,
        ),
    ),
    Command(
        name="addNicToVirtualMachine",
        description="Adds a nic to a virtual machine, which may be running",
        handler=add_nic,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied, InsufficientAddresses),
        changes_state=True,
        parameters=(
            OF_VM,
            uuid(
                "networkid",
                Entity.NETWORK,
                "the network; it must be in the VM's zone and usable by its owner",
                required=True,
            ),
            string("ipaddress", "the address; default: a free address of the network"),
            string("macaddress", "the MAC address; default: a generated address"),
        ),
        unsupported={"dhcpoptions": NO_DHCP_OPTIONS},
    ),
    Command(
        name="removeNicFromVirtualMachine",
        description="Removes a nic other than the default one from a virtual machine, which may be running",
        handler=remove_nic,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=ONE_NIC,
    ),
    Command(
        name="updateDefaultNicForVirtualMachine",
        description="Changes the default nic of a virtual machine. The hypervisor is not called.",
        handler=make_default_nic,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=ONE_NIC,
    ),
)
