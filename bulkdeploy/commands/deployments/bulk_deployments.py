"""bulkDeployVirtualMachine, and the batches it makes: listBulkDeployments, cancelBulkDeployment.

Source: the functional specification of CLOUDSTACK-9951; parameters and answers as reference section
0, ours beyond it (``nameprefix``, ``minimumcount``, ``dryrun``, ``requesttoken``, ``startvm``,
``projectid``) as DESIGN section 4.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deploy_parameters import (
    SHARED,
    SHARED_RULES,
    deploy_ask,
    deployment_planner,
    require_root_admin,
)
from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.placement_fields import EXCLUDED, HOSTS
from bulkdeploy.commands.virtual_machines.key_pair_parameters import key_pair_names
from bulkdeploy.declare.command import Command, Instead
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import Exclusive, Needs, boolean, integer, string, uuid, uuids
from bulkdeploy.declare.response_fields import OWNER_FIELDS, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY, Caller
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    InvalidCombination,
    OwnerDisabled,
    PermissionDenied,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.provisioning.kinds.deploy_virtual_machine import DEPLOY
from bulkdeploy.scheduling.explanation import explain_deployment
from bulkdeploy.services.deployments.bulk_deployments import (
    answered_hosts,
    cancel_bulk_deployment,
    list_bulk_deployments,
    spread_rows,
)
from bulkdeploy.services.deployments.deploy import DryRun, deploy
from bulkdeploy.services.deployments.deployment_names import LONGEST_PREFIX
from bulkdeploy.store.deployments.deployments import DeployedVms
from bulkdeploy.store.listing import Page, rows_of

SPREAD_FIELDS = (
    text("clusterid", "the cluster"),
    text("clustername", "the cluster's name"),
    text("podid", "the cluster's pod"),
    text("podname", "the pod's name"),
    number("before", "the owner's VMs in the cluster before the call"),
    number("added", "VMs of the call in the cluster, as planned"),
    number("after", "before and added together"),
    number("capacity", "VMs of this kind that the cluster had room for before the call"),
)

PLAN_FIELDS = (
    text("planner", "the deployment planner that placed the VMs: listDeploymentPlanners says how", ROOT_ADMIN_ONLY),
    number(
        "skew",
        "largest difference of the owner's VMs between clusters that had room for such VMs, as planned",
        ROOT_ADMIN_ONLY,
    ),
    objects("clusters", "what each cluster with room for such VMs gets", SPREAD_FIELDS, ROOT_ADMIN_ONLY),
    EXCLUDED,
    HOSTS,
)
"""Who is not a root admin sees nothing of the infrastructure: the same as of a single deployment."""

PLAN = Response(
    "plan",
    (
        number("count", "VMs asked for"),
        number("fits", "VMs that would be made"),
        number("capacity", "VMs of this kind that there is room for in all", ROOT_ADMIN_ONLY),
        *PLAN_FIELDS,
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
        *PLAN_FIELDS,
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
    require_root_admin(call, "podid", "clusterid", "hostids")
    if "hostids" in call.arguments and not call.flag("dryrun"):
        raise InvalidCombination(
            ("hostids", "dryrun"), "hostids must be given with dryrun=true: it asks, it pins nothing"
        )
    ask = deploy_ask(
        call,
        bulk=True,
        count=call.arguments["virtualmachinecount"],
        minimum_count=call.arguments.get("minimumcount"),
        keypairs=key_pair_names(call),
        name_prefix=call.text("nameprefix"),
        planner=call.text("deploymentplanner"),
        dry_run=call.flag("dryrun"),
        explain_host_ids=_host_ids(call),
        request_token=call.text("requesttoken"),
    )
    result = deploy(call.connection, call.system, call.caller, ask)
    if isinstance(result, DryRun):
        return Instead(PLAN, _plan_row(call, result))
    count = len(result.job_uuids)
    return Page(rows_of(range(count), partial(_job_rows, call.caller, result)), count)


def _plan_row(call: Call, result: DryRun) -> dict[str, Any]:
    return {
        "count": result.asked,
        "fits": result.fits,
        "capacity": result.plan["capacity"],
        **spread_rows(call.connection, [result.plan])[0],
        "hosts": answered_hosts(call.connection, result.hosts),
    }


def _host_ids(call: Call) -> tuple[int, ...]:
    return tuple(ref.id for ref in call.arguments.get("hostids", ()))


def _job_rows(caller: Caller, deployed: DeployedVms, positions: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
    """One job object per VM (reference section 0.6), each naming its deployment; by position."""
    shared = {
        "accountid": caller.owner.account_uuid,
        "userid": caller.user_uuid,
        "cmd": DEPLOY.command_class,
        "jobstatus": JobStatus.IN_PROGRESS.value,
        "jobprocstatus": 0,
        "jobresultcode": 0,
        "jobinstancetype": DEPLOY.instance_type.value,
        "created": deployed.created,
        "deploymentid": deployed.uuid,
    }
    return {
        at: {**shared, "jobid": deployed.job_uuids[at], "jobinstanceid": deployed.vm_uuids[at]} for at in positions
    }


def _list(call: Call) -> Page:
    require_root_admin(call, "hostids")
    page = list_bulk_deployments(call.connection, visible(call), call.arguments, paging(call))
    if "hostids" not in call.arguments or not page.rows:
        return page
    answers = explain_deployment(call.connection, call.arguments["id"].id, _host_ids(call))
    return Page([{**page.rows[0], "hosts": answered_hosts(call.connection, answers)}], page.count)


def _cancel(call: Call) -> Mapping[str, Any]:
    return cancel_bulk_deployment(call.connection, call.caller, call.arguments["id"])


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
            uuid(
                "podid",
                Entity.POD,
                "deploy only in this pod, without retry elsewhere; root admins; not with clusterid",
            ),
            uuid(
                "clusterid",
                Entity.CLUSTER,
                "deploy only in this cluster, without retry; root admins; not with podid",
            ),
            deployment_planner("the planner to place the VMs with, instead of dispersing them by count"),
            string("userdata", "data for the guests, base64", length=1048576),
            string(
                "nameprefix",
                "names are made of it and a number, instead of being generated",
                length=LONGEST_PREFIX,
            ),
            integer("minimumcount", "accept fewer VMs, as many as fit, but at least so many"),
            boolean("dryrun", "answer the plan and its reasons; nothing is deployed"),
            uuids(
                "hostids",
                Entity.HOST,
                "with dryrun: whether each of these hosts takes VMs, and if not, why; root admins",
            ),
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
            uuids(
                "hostids",
                Entity.HOST,
                "with id: whether each of these hosts takes one more of its VMs now, and if not, why; root admins",
            ),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
        rules=(Needs("hostids", "id"),),
        errors=(PermissionDenied, ResourceUnavailable),
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
