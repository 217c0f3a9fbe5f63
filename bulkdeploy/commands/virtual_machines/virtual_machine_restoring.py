"""restoreVirtualMachine."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import boolean, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.virtual_machines import virtual_machine_restoring

NO_NEW_SIZE = "the root disk keeps its size and its place"


def restore_virtual_machine(call: Call) -> JobTicket:
    """Make a VM's root disk anew; the job's result is the VM."""
    return virtual_machine_restoring.restore_virtual_machine(
        call.connection,
        call.system,
        call.caller,
        call.arguments["virtualmachineid"],
        call.ref("templateid"),
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="restoreVirtualMachine",
        description="Makes the root disk of a virtual machine anew from a template; a running one is started again",
        handler=restore_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            uuid("templateid", Entity.TEMPLATE, "another template than the one it was made from"),
            boolean("expunge", "remove what was on the disk at once, which is done in any case"),
        ),
        unsupported={"details": NO_NEW_SIZE, "diskofferingid": NO_NEW_SIZE, "rootdisksize": NO_NEW_SIZE},
    ),
)
