"""restoreVirtualMachine: the replacement of root volumes."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.parameters.disk_parameters import ROOT_DISK_SIZE, merge_details, read_root_disk_gib
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import boolean, long, mapping, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceLimitExceeded
from bulkdeploy.domain.virtual_machines.sizes import MOST_DISK_GIB
from bulkdeploy.services.virtual_machines import virtual_machine_restoring
from bulkdeploy.services.virtual_machines.virtual_machine_restoring import RestoreRequest


def restore_virtual_machine(call: Call) -> JobTicket:
    """Replace the root volume of a VM by a new one.

    The job's result is the VM.

    Raises:
        InvalidParameter: ``details`` contains other details than ``rootdisksize``.
    """
    for detail in set(merge_details(call.arguments, "details")) - {ROOT_DISK_SIZE}:
        raise InvalidParameter("details", detail, f"the only detail of a new root volume is {ROOT_DISK_SIZE}")
    return virtual_machine_restoring.restore_virtual_machine(
        call.connection,
        call.system,
        call.caller,
        call.arguments["virtualmachineid"],
        RestoreRequest(call.ref("templateid"), call.ref("diskofferingid"), read_root_disk_gib(call.arguments)),
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="restoreVirtualMachine",
        description="Replaces the root volume of a virtual machine by a new one from a template. A running virtual"
        " machine is restarted.",
        handler=restore_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=(
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            uuid("templateid", Entity.TEMPLATE, "the new template; default: the present template"),
            uuid("diskofferingid", Entity.DISK_OFFERING, "the disk offering of the new root volume"),
            long("rootdisksize", "the size of the new root volume in GiB", minimum=1, maximum=MOST_DISK_GIB),
            mapping("details", "rootdisksize (GiB) takes precedence over the parameter rootdisksize"),
            boolean("expunge", "accepted but ignored: the old root volume is always removed at once"),
        ),
    ),
)
