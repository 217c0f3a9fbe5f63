"""attachIso and detachIso: ISOs in the drives of VMs."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import boolean, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.virtual_machines import virtual_machine_isos

VM = uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM; it must be Running or Stopped", required=True)


def attach_iso(call: Call) -> JobTicket:
    """Attach an ISO to a VM. With ``forced``, an attached ISO is replaced."""
    arguments = call.arguments
    return virtual_machine_isos.attach_iso(
        call.connection,
        call.system,
        call.caller,
        arguments["id"],
        arguments["virtualmachineid"],
        forced=call.flag("forced"),
    )


def detach_iso(call: Call) -> JobTicket:
    """Detach the ISO from a VM."""
    return virtual_machine_isos.detach_iso(
        call.connection, call.system, call.caller, call.arguments["virtualmachineid"]
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="attachIso",
        description="Attaches an ISO to the drive of a virtual machine, which may be running",
        handler=attach_iso,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.ISO, "the ISO; the VM's owner must be allowed to use it", required=True),
            VM,
            boolean(
                "forced", "true: replace an ISO that is already attached; default: false, which rejects the call"
            ),
        ),
    ),
    Command(
        name="detachIso",
        description="Detaches the ISO from the drive of a virtual machine, which may be running",
        handler=detach_iso,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(VM, boolean("forced", "accepted but ignored: a guest that has mounted the ISO keeps it")),
    ),
)
