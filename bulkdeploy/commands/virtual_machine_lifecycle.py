"""startVirtualMachine, stopVirtualMachine, destroyVirtualMachine (reference section 8.16)."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.virtual_machine_response import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import boolean, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services import virtual_machines


def start_virtual_machine(call: Call) -> JobTicket:
    """Start a stopped VM; the job's result is the VM."""
    return virtual_machines.start_virtual_machine(
        call.system,
        call.caller,
        call.arguments["id"],
        pod_id=call.ref_id("podid"),
        cluster_id=call.ref_id("clusterid"),
        host_id=call.ref_id("hostid"),
    )


def stop_virtual_machine(call: Call) -> JobTicket:
    """Stop a VM; the job's result is the VM."""
    return virtual_machines.stop_virtual_machine(
        call.system, call.caller, call.arguments["id"], forced=call.flag("forced")
    )


def destroy_virtual_machine(call: Call) -> JobTicket:
    """Destroy a VM; the job's result is the VM."""
    return virtual_machines.destroy_virtual_machine(
        call.system, call.caller, call.arguments["id"], expunge=call.flag("expunge")
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="startVirtualMachine",
        description="Starts a virtual machine that is stopped",
        handler=start_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            uuid("podid", Entity.POD, "start it in this pod or nowhere", roles=ROOT_ADMIN_ONLY),
            uuid("clusterid", Entity.CLUSTER, "start it in this cluster or nowhere", roles=ROOT_ADMIN_ONLY),
            uuid("hostid", Entity.HOST, "start it on this host or nowhere", roles=ROOT_ADMIN_ONLY),
        ),
    ),
    Command(
        name="stopVirtualMachine",
        description="Stops a virtual machine",
        handler=stop_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            boolean("forced", "cut its power instead of asking it to shut down"),
        ),
    ),
    Command(
        name="destroyVirtualMachine",
        description="Destroys a virtual machine. Its volumes stay until it is expunged, expunge.delay later.",
        handler=destroy_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            boolean("expunge", "remove it and its volumes now; for admins, and users who are let"),
        ),
    ),
)
