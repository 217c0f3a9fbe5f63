"""Commands that start, stop, reboot, destroy, recover and expunge VMs."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.parameters.deploy_parameters import deployment_planner
from bulkdeploy.commands.planned_moves import MOVE_PLAN, PLAN_PARAMETERS, answered, plan_wanted
from bulkdeploy.commands.unsupported import NO_SETUP
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, Instead, JobTicket
from bulkdeploy.declare.parameters import boolean, uuid, uuids
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, PlanStale, ResourceLimitExceeded
from bulkdeploy.services.virtual_machines import (
    virtual_machine_recovery,
    virtual_machine_starting,
    virtual_machines,
)


def start_virtual_machine(call: Call) -> JobTicket | Instead:
    """Start a stopped VM, or return the plan of a dry run. The job's result is the VM."""
    done = virtual_machine_starting.start_virtual_machine(
        call.connection,
        call.system,
        call.caller,
        call.arguments["id"],
        pod_id=call.ref_id("podid"),
        cluster_id=call.ref_id("clusterid"),
        host_id=call.ref_id("hostid"),
        planner=call.text("deploymentplanner"),
        consider_last_host=call.flag("considerlasthost", default=True),
        plan=plan_wanted(call, "startVirtualMachine"),
    )
    return answered(call, done)


def stop_virtual_machine(call: Call) -> JobTicket:
    """Create the job that stops a VM. The job's result is the VM."""
    return virtual_machines.stop_virtual_machine(
        call.connection, call.system, call.caller, call.arguments["id"], forced=call.flag("forced")
    )


def destroy_virtual_machine(call: Call) -> JobTicket:
    """Create the job that destroys a VM. The job's result is the VM."""
    return virtual_machines.destroy_virtual_machine(
        call.connection,
        call.system,
        call.caller,
        call.arguments["id"],
        expunge=call.flag("expunge"),
        volumes=call.arguments.get("volumeids", ()),
    )


def reboot_virtual_machine(call: Call) -> JobTicket:
    """Create the job that stops and starts a running VM. The job's result is the VM."""
    return virtual_machines.reboot_virtual_machine(
        call.connection, call.system, call.caller, call.arguments["id"], forced=call.flag("forced")
    )


def repair_virtual_machine(call: Call) -> JobTicket:
    """Create the job that changes a VM's guest so that it matches the VM's rows. The job's result is the VM."""
    return virtual_machines.repair_virtual_machine(
        call.connection, call.system, call.caller, call.arguments["id"], forced=call.flag("forced")
    )


def expunge_virtual_machine(call: Call) -> JobTicket:
    """Create the job that removes a destroyed VM and its volumes immediately."""
    return virtual_machines.expunge_virtual_machine(call.connection, call.system, call.caller, call.arguments["id"])


def recover_virtual_machine(call: Call) -> Mapping[str, Any]:
    """Recover a destroyed VM to state Stopped, and return the VM."""
    return virtual_machine_recovery.recover_virtual_machine(call.connection, call.caller, call.arguments["id"])


COMMANDS: tuple[Command, ...] = (
    Command(
        name="startVirtualMachine",
        description="Starts a virtual machine that is stopped",
        handler=start_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        instead=MOVE_PLAN,
        errors=(PermissionDenied, PlanStale),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            uuid(
                "podid",
                Entity.POD,
                "start the VM in this pod; the call fails if the pod has no capacity",
                roles=ROOT_ADMIN_ONLY,
            ),
            uuid(
                "clusterid",
                Entity.CLUSTER,
                "start the VM in this cluster; the call fails if the cluster has no capacity",
                roles=ROOT_ADMIN_ONLY,
            ),
            uuid(
                "hostid",
                Entity.HOST,
                "start the VM on this host; the call fails if the host has no capacity",
                roles=ROOT_ADMIN_ONLY,
            ),
            boolean(
                "considerlasthost",
                "whether the last host of the VM is tried before other hosts; default: true",
                roles=ROOT_ADMIN_ONLY,
            ),
            deployment_planner(
                "the deployment planner that places the VM; default: as in the call that deployed the VM"
            ),
            *PLAN_PARAMETERS,
        ),
        unsupported={"bootintosetup": NO_SETUP},
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
            boolean("forced", "true: cut the power, instead of a clean shutdown of the guest"),
        ),
    ),
    Command(
        name="rebootVirtualMachine",
        description="Stops a running virtual machine and starts it again. If its service offering is volatile, the"
        " power is cut, and a new root disk replaces the old one.",
        handler=reboot_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            boolean("forced", "true: cut the power, instead of a clean shutdown of the guest"),
        ),
        unsupported={"bootintosetup": NO_SETUP},
    ),
    Command(
        name="recoverVirtualMachine",
        description="Recovers a destroyed virtual machine, which is Stopped afterwards. For admins, and"
        " for users if the settings allow it.",
        handler=recover_virtual_machine,
        shape=Shape.OBJECT,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=(uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),),
    ),
    Command(
        name="expungeVirtualMachine",
        description=(
            "Expunges a destroyed virtual machine and its volumes; for admins, and for users if "
            "allow.user.expunge.recover.vm is true"
        ),
        handler=expunge_virtual_machine,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),),
    ),
    Command(
        name="repairVirtualMachine",
        description=(
            "Repairs a virtual machine. Afterwards its guest runs only on the recorded host, with the recorded "
            "devices"
        ),
        handler=repair_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            boolean("forced", "true: stop and start a guest that cannot be repaired while it runs; default: false"),
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
            boolean(
                "expunge",
                "expunge the VM and its volumes at once; for admins, and for users if "
                "allow.user.expunge.recover.vm is true",
            ),
            uuids("volumeids", Entity.VOLUME, "data volumes to delete with the VM; they cannot be recovered"),
        ),
    ),
)
