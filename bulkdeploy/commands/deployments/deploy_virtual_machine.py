"""deployVirtualMachine: deploys one VM with the same service as the bulk call (cloudstack-protocol.md 5)."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.deploy_calls import PLAN, deploy_call, deploying, named_nics
from bulkdeploy.commands.deployments.responses import DEPLOYMENT_ERRORS
from bulkdeploy.commands.parameters.custom_ids import (
    CUSTOM_ID,
    CUSTOM_ID_PARAMETER,
    JOB_ID,
    JOB_ID_PARAMETER,
    chosen_id,
)
from bulkdeploy.commands.parameters.deploy_parameters import OF_ANY_VM, OF_ONE_VM, RULES_OF_ONE_VM, UNSUPPORTED
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.deployments.deployment import DeployCall, NamedVm
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    PlanStale,
)
from bulkdeploy.store.deployments.deployments import DeployedVms


def _request(call: Call) -> DeployCall:
    return deploy_call(
        call,
        bulk=False,
        count=1,
        host_id=call.ref_id("hostid"),
        vms=(
            NamedVm(
                call.text("name"),
                call.text("displayname"),
                uuid=chosen_id(call, CUSTOM_ID, Entity.VIRTUAL_MACHINE),
                job_uuid=chosen_id(call, JOB_ID, Entity.JOB, Entity.EVENT),
            ),
        ),
        nics=named_nics(call),
    )


def _answer(_: Call, deployed: DeployedVms) -> JobTicket:
    return JobTicket(deployed.job_uuids[0], deployed.vm_uuids[0])


DEPLOYING = deploying(_request, _answer)
"""Deploys one VM. The response has its id and the job that starts it, or the plan of a dry run."""

COMMANDS: tuple[Command, ...] = (
    Command(
        name="deployVirtualMachine",
        description="Creates and automatically starts a virtual machine",
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        instead=PLAN,
        changes_state=True,
        parameters=(*OF_ANY_VM, *OF_ONE_VM, CUSTOM_ID_PARAMETER, JOB_ID_PARAMETER),
        unsupported=UNSUPPORTED,
        rules=RULES_OF_ONE_VM,
        errors=(*DEPLOYMENT_ERRORS, PlanStale),
        handler=DEPLOYING.handle,
        sharing=DEPLOYING,
    ),
)
