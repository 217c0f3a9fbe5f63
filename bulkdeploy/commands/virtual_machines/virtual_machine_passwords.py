"""resetPasswordForVirtualMachine: new passwords of guests."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.virtual_machines import guest_passwords


def reset_password(call: Call) -> JobTicket:
    """Change the password of a stopped VM. The job's result contains the new password."""
    vm, given = call.arguments["id"], call.text("password")
    return guest_passwords.reset_password(call.connection, call.system, call.caller, vm, given)


COMMANDS: tuple[Command, ...] = (
    Command(
        name="resetPasswordForVirtualMachine",
        description="Resets the password of a stopped virtual machine. It takes effect at the next start.",
        handler=reset_password,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM; its template must be password enabled", required=True),
            string(
                "password", "the password: 6 to 128 ASCII characters without spaces; default: a random password"
            ),
        ),
    ),
)
