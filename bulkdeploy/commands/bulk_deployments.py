"""bulkDeployVirtualMachine, and the batches it makes: listBulkDeployments, cancelBulkDeployment.

Source: the functional specification of CLOUDSTACK-9951; parameters and answers as reference section
0, ours beyond it (``nameprefix``, ``minimumcount``, ``dryrun``, ``requesttoken``, ``startvm``,
``projectid``) as DESIGN section 4.
"""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deploy_parameters import SHARED, SHARED_RULES, deploy_ask
from bulkdeploy.commands.job_response import ASYNC_JOB
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, Instead
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import Exclusive, boolean, integer, string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    OwnerDisabled,
    PermissionDenied,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.domain.jobs import COMMAND_CLASS, JobKind, JobStatus
from bulkdeploy.services.bulk_deployments import (
    cancel_bulk_deployment,
    list_bulk_deployments,
    spread_rows,
)
from bulkdeploy.services.deploy import DryRun, deploy
from bulkdeploy.store.deployments import DeployedVms
from bulkdeploy.store.listing import Page

SPREAD_FIELDS = (
    text("clusterid", "the cluster"),
    text("clustername", "the cluster's name"),
    text("podid", "the cluster's pod"),
    text("podname", "the pod's name"),
    number("before", "the owner's VMs in the cluster before the call"),
    number("added", "VMs of the call in the cluster, as planned"),
    number("after", "before and added together"),
    number("room", "VMs of this kind that the cluster could still hold before the call"),
)

EXCLUDED = objects(
    "excluded",
    "hosts that took no VM, by the first rule that ruled them out",
    (text("reason", "the rule"), number("hosts", "how many hosts")),
)

PLAN = Response(
    "plan",
    (
        number("count", "VMs asked for"),
        number("fits", "VMs that would be placed"),
        number("capacity", "VMs of this kind that have room in all"),
        number("skew", "largest difference of VMs between clusters that get VMs"),
        objects("clusters", "what each eligible cluster would get", SPREAD_FIELDS),
        EXCLUDED,
    ),
)

BULK_DEPLOYMENT = Response(
    "bulkdeployment",
    (
        text("id", "the deployment; ``deploymentid`` of its jobs"),
        text("zoneid", "the zone"),
        text("zonename", "the zone's name"),
        *OWNER_FIELDS,
        moment("created", "when the call was answered"),
        text("state", "InProgress, Completed or Cancelled"),
        number("asked", "VMs asked for"),
        number("count", "VMs made"),
        number("queued", "jobs that no worker has taken yet; cancelling stops them"),
        number(
            "running", "jobs that a worker has taken; cancelling stops those of them that wait for a free thread"
        ),
        number("succeeded", "jobs that succeeded"),
        number("failed", "jobs that failed"),
        number("skew", "largest difference of the owner's VMs between clusters that got VMs, as planned"),
        objects("clusters", "what each eligible cluster got", SPREAD_FIELDS),
        EXCLUDED,
        objects(
            "failures",
            "the first 100 failed jobs",
            (
                text("jobid", "the job"),
                text("virtualmachineid", "its VM"),
                number("errorcode", "why, as a number"),
                text("errortext", "why"),
            ),
        ),
    ),
)


def bulk_deploy_virtual_machine(call: Call) -> Page | Instead:
    """Deploy many alike VMs; answers their jobs in creation order, or the plan of a dry run."""
    ask = deploy_ask(
        call,
        bulk=True,
        count=call.arguments["virtualmachinecount"],
        minimum_count=call.arguments.get("minimumcount"),
        keypairs=() if call.text("keypair") is None else (call.arguments["keypair"],),
        name_prefix=call.text("nameprefix"),
        dry_run=call.flag("dryrun"),
        request_token=call.text("requesttoken"),
    )
    result = deploy(call.system, call.caller, ask)
    if isinstance(result, DryRun):
        return Instead(PLAN, _plan_row(call, result))
    rows = _job_rows(call, result)
    return Page(rows, len(rows))


def _plan_row(call: Call, result: DryRun) -> dict[str, Any]:
    return {
        "count": result.asked,
        "fits": result.fits,
        "capacity": result.plan["capacity"],
        **spread_rows(call.connection, [result.plan])[0],
    }


def _job_rows(call: Call, deployed: DeployedVms) -> list[Mapping[str, Any]]:
    """One job object per VM (reference section 0.6), each naming its deployment."""
    shared = {
        "accountid": call.caller.owner.account_uuid,
        "userid": call.caller.user_uuid,
        "cmd": COMMAND_CLASS[JobKind.DEPLOY],
        "jobstatus": JobStatus.IN_PROGRESS.value,
        "jobprocstatus": 0,
        "jobresultcode": 0,
        "jobinstancetype": "VirtualMachine",
        "created": deployed.created,
        "deploymentid": deployed.uuid,
    }
    return [
        {**shared, "jobid": job, "jobinstanceid": vm}
        for job, vm in zip(deployed.job_uuids, deployed.vm_uuids, strict=True)
    ]


def _list(call: Call) -> Page:
    return list_bulk_deployments(call.connection, visible(call), call.arguments, paging(call))


def _cancel(call: Call) -> Mapping[str, Any]:
    return cancel_bulk_deployment(call.system, call.caller, call.arguments["id"])


COMMANDS: tuple[Command, ...] = (
    Command(
        name="bulkDeployVirtualMachine",
        description="Deploys many alike VMs with one call, dispersed by count over clusters or pods. "
        "Answers at once with one job per VM.",
        since="4.11",
        roles=ROOT_ADMIN_ONLY,
        shape=Shape.LIST,
        response=ASYNC_JOB,
        instead=PLAN,
        changes_state=True,
        parameters=(
            *SHARED,
            integer("virtualmachinecount", "how many VMs to deploy, a positive number", required=True),
            uuid("podid", Entity.POD, "deploy only in this pod, without retry elsewhere; not with clusterid"),
            uuid("clusterid", Entity.CLUSTER, "deploy only in this cluster, without retry; not with podid"),
            string("userdata", "data for the guests, base64", length=1048576),
            string("nameprefix", "names are made of it and a number, instead of being generated"),
            integer("minimumcount", "accept fewer VMs, as many as fit, but at least so many"),
            boolean("dryrun", "answer the plan and its reasons; nothing is deployed"),
            string("requesttoken", "the same token with the same parameters answers the same jobs again"),
            boolean("startvm", "false: make the VMs and do not start them; default true"),
        ),
        rules=(Exclusive(("podid", "clusterid")), *SHARED_RULES),
        errors=(
            PermissionDenied,
            OwnerDisabled,
            ResourceLimitExceeded,
            InsufficientCapacity,
            InsufficientAddresses,
            ResourceUnavailable,
        ),
        handler=bulk_deploy_virtual_machine,
    ),
    Command(
        name="listBulkDeployments",
        description="Lists bulk deployments as a whole: jobs by state, spread over clusters, failures",
        shape=Shape.LIST,
        response=BULK_DEPLOYMENT,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.DEPLOYMENT, "the deployment"),
            uuid("zoneid", Entity.ZONE, "only those in this zone"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
        errors=(PermissionDenied,),
        handler=_list,
    ),
    Command(
        name="cancelBulkDeployment",
        description="Stops the jobs of a bulk deployment that have not begun; they fail and give back their room",
        shape=Shape.OBJECT,
        response=BULK_DEPLOYMENT,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.DEPLOYMENT, "the deployment", required=True),),
        errors=(PermissionDenied,),
        handler=_cancel,
    ),
)
