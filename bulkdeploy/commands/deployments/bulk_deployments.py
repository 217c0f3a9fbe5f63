"""bulkDeployVirtualMachine, listBulkDeployments and cancelBulkDeployment.

Source: the functional specification of CLOUDSTACK-9951 (cloudstack-protocol.md 0). The parameters ``nameprefix``,
``minimumcount``, ``dryrun``, ``requesttoken``, ``startvm`` and ``projectid`` are extensions.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.deploy_calls import (
    PLAN,
    deploy_call,
    deploying,
    host_ids,
    require_root_admin,
)
from bulkdeploy.commands.deployments.recorded_calls import MANAGED, bound_call
from bulkdeploy.commands.deployments.responses import BULK_DEPLOYMENT, DEPLOYMENT_ERRORS
from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.parameters.deploy_parameters import NOT_OF_MANY, OF_ANY_VM, RULES, UNSUPPORTED
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT, sort_by
from bulkdeploy.declare.parameters import Exclusive, Needs, integer, string, uuid, uuids
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.deployments.deployment import DeployCall
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    PermissionDenied,
    PlanStale,
    ResourceUnavailable,
)
from bulkdeploy.scheduling.explanation import explain_deployment
from bulkdeploy.services.deployments.bulk_deployments import (
    answered_hosts,
    cancel_bulk_deployment,
    job_rows,
    list_bulk_deployments,
)
from bulkdeploy.services.deployments.deployment_names import LONGEST_PREFIX
from bulkdeploy.store.deployments.deployments import ORDERS, DeployedVms
from bulkdeploy.store.rows.listing import Page, rows_of


def _request(call: Call) -> DeployCall:
    return deploy_call(
        call,
        bulk=True,
        count=call.arguments["virtualmachinecount"],
        minimum_count=call.arguments.get("minimumcount"),
        name_prefix=call.text("nameprefix"),
        request_token=call.text("requesttoken"),
    )


def _answer(call: Call, deployed: DeployedVms) -> Page:
    count = len(deployed.job_uuids)
    return Page(rows_of(range(count), partial(job_rows, call.caller, deployed)), count)


def _repeat(call: Call, recorded: Mapping[str, str], before: int, more: int) -> DeployCall:
    del before
    return _request(bound_call(call, {**recorded, "virtualmachinecount": str(more)}))


DEPLOYING = deploying(_request, _answer)
"""Deploys many equal VMs. The response has their jobs in creation order, or the plan of a dry run."""


def _list(call: Call) -> Page:
    require_root_admin(call, "hostids")
    page = list_bulk_deployments(call.connection, visible(call), call.arguments, paging(call))
    if "hostids" not in call.arguments or not page.rows:
        return page
    answers = explain_deployment(call.connection, call.arguments["id"].id, host_ids(call))
    return Page([{**page.rows[0], "hosts": answered_hosts(call.connection, answers)}], page.count)


def _cancel(call: Call) -> Mapping[str, Any]:
    return cancel_bulk_deployment(call.connection, call.caller, call.arguments["id"])


COMMANDS: tuple[Command, ...] = (
    Command(
        name="bulkDeployVirtualMachine",
        description=(
            "Deploys many equal VMs with one call and disperses them evenly over clusters or pods. Returns at "
            "once, with one job per VM."
        ),
        since="4.11",
        roles=ROOT_ADMIN_ONLY,
        shape=Shape.LIST,
        response=ASYNC_JOB,
        instead=PLAN,
        changes_state=True,
        parameters=(
            *OF_ANY_VM,
            integer("virtualmachinecount", "how many VMs to deploy, a positive number", required=True),
            string(
                "nameprefix",
                "the prefix of generated names; the first free numbers are appended: prefix-1, prefix-2, ...",
                length=LONGEST_PREFIX,
            ),
            integer(
                "minimumcount",
                "accept fewer VMs than virtualmachinecount if they do not fit, but at least this number",
            ),
            string("requesttoken", "a repeated call with the same token and parameters returns the same jobs"),
            *MANAGED,
        ),
        unsupported=UNSUPPORTED | NOT_OF_MANY,
        rules=(Exclusive(("podid", "clusterid")), *RULES),
        errors=(*DEPLOYMENT_ERRORS, PlanStale),
        handler=DEPLOYING.handle,
        sharing=DEPLOYING,
        repeat=_repeat,
    ),
    Command(
        name="listBulkDeployments",
        description=(
            "Lists bulk deployments, with the number of jobs by state, the distribution over clusters and the "
            "failures"
        ),
        shape=Shape.LIST,
        response=BULK_DEPLOYMENT,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.DEPLOYMENT, "the bulk deployment"),
            uuid("zoneid", Entity.ZONE, "only deployments in this zone"),
            uuids(
                "hostids",
                Entity.HOST,
                "with id: hosts about which the response reports whether they can get one more VM of the "
                "deployment, or why not; root admins only",
            ),
            *OWNER,
            *PROJECT,
            sort_by(ORDERS),
            *PAGING,
        ),
        rules=(Needs("hostids", "id"),),
        errors=(PermissionDenied, ResourceUnavailable),
        handler=_list,
    ),
    Command(
        name="cancelBulkDeployment",
        description=(
            "Cancels the queued jobs of a bulk deployment. These jobs fail, and their capacity becomes free"
        ),
        shape=Shape.OBJECT,
        response=BULK_DEPLOYMENT,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.DEPLOYMENT, "the bulk deployment", required=True),),
        errors=(PermissionDenied,),
        handler=_cancel,
    ),
)
