"""updateBulkDeployment: the desired size of managed deployments."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.recorded_calls import HOW_MANAGED, TIMEOUT_RULE
from bulkdeploy.commands.deployments.resizing import Resized, deploy_more, lock_deployment, resize
from bulkdeploy.commands.deployments.responses import DEPLOYMENT_ERRORS
from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import boolean, integer, string, uuid
from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.deployments.deployment import ScaleInPolicy
from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.domain.deployments.replacements import ReplacementState
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidCombination
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.services.deployments.deploy import DryRun
from bulkdeploy.services.deployments.guest_checks import require_checkable
from bulkdeploy.services.fleets.bulk_operations import check_bulk_operation, count_or_share
from bulkdeploy.services.fleets.scale_in import UPDATE_COMMAND, scale_in
from bulkdeploy.services.jobs.bulk_jobs import new_job_fields
from bulkdeploy.store.deployments import managed_deployments as store
from bulkdeploy.store.deployments.replacements import close_replacement, is_in_progress

UPDATED = Response(
    "bulkdeployment",
    (
        text("id", "the bulk deployment"),
        number("virtualmachinecount", "the desired number of VMs"),
        number("before", "the number of VMs before the call"),
        number("added", "the number of VMs that are deployed or, in a dry run, would be deployed"),
        number("removed", "the number of VMs that are destroyed or, in a dry run, would be destroyed"),
        text("grownby", "the bulk deployment of the new VMs; listBulkDeployments shows its progress"),
        text(
            "operationid", "the bulk operation that destroys the removed VMs; listBulkOperations shows its progress"
        ),
        objects("asyncjobs", "the jobs of the VMs that are added or removed", ASYNC_JOB.fields),
        objects(
            "virtualmachines",
            "the VMs that would be removed; only in a dry run",
            (text("id", "the VM"), text("name", "the name of the VM"), text("state", "the state of the VM")),
        ),
    ),
)


def _update(call: Call) -> Mapping[str, Any]:
    """Change the desired size of a managed deployment, and begin to add or remove VMs in the same transaction.

    While VMs of the deployment are being replaced, only the desired size is changed; the sweeper then adds and
    removes VMs as a part of the replacement.
    """
    ref, connection = call.arguments["id"], call.connection
    given = call.arguments
    count, policy_name = given.get("virtualmachinecount"), given.get("scaleinpolicy")
    is_kept, is_dry = call.flag("managed", default=True), call.flag("dryrun")
    managed = lock_deployment(call, ref)
    members = store.members_of(connection, ref.id)
    policy = ScaleInPolicy(policy_name or managed.scale_in_policy)
    desired = managed.desired_count if count is None else count
    answer = {"id": ref.uuid, "virtualmachinecount": desired, "before": len(members)}
    if not is_kept:
        if not is_dry:
            close_replacement(connection, ref.id, ReplacementState.SUPERSEDED)
            store.delete_managed(connection, ref.id)
        return {**answer, "added": 0, "removed": 0, "asyncjobs": []}
    if is_dry:
        return {**answer, **_dry_run(call, managed, members, desired, policy)}
    changes = {
        "desired_count": desired,
        "scale_in_policy": policy.value,
        **_healing(call, desired),
        **_health(call, managed, [vm.id for vm in members]),
    }
    store.update_managed(connection, ref.id, changes)
    is_replaced_now = is_in_progress(connection, ref.id)
    resized = Resized() if is_replaced_now else resize(call, managed, members, desired, policy)
    return {**answer, **_resized_fields(call, resized)}


HEALING = {"autoheal": "autoheal", "healafter": "heal_after", "maxunavailable": "heal_at_once"}
"""Parameters for the healing of broken VMs, and their columns."""


def _healing(call: Call, desired: int) -> dict[str, Any]:
    """Return the changed columns for the healing of broken VMs.

    Raises:
        InvalidParameter: ``maxunavailable`` is neither a number nor a percentage.
    """
    count_or_share("maxunavailable", call.text("maxunavailable"), desired)
    changes = {column: call.arguments[name] for name, column in HEALING.items() if name in call.arguments}
    return {**changes, "heal_tries": 0} if changes else {}


def _health(call: Call, managed: Row[Any], vm_ids: Sequence[int]) -> dict[str, Any]:
    """Return the changed columns of the health check.

    Raises:
        InvalidParameter: ``healthcheck`` is not valid, or guests of the VMs cannot be checked in this way.
        InvalidCombination: a timeout is given without a health check.
    """
    changes: dict[str, Any] = {}
    has_check = managed.health_check is not None
    if "healthcheck" in call.arguments:
        given = call.arguments["healthcheck"]
        check = HealthCheck.read(given)
        has_check = check is not None
        if check is not None:
            require_checkable(call.connection, call.system, check, vm_ids, "healthcheck", given)
        changes["health_check"] = None if check is None else str(check)
    if "healthtimeout" in call.arguments:
        if not has_check:
            raise InvalidCombination(("healthtimeout", "healthcheck"), TIMEOUT_RULE)
        changes["health_timeout"] = call.arguments["healthtimeout"]
    return changes


def _resized_fields(call: Call, resized: Resized) -> dict[str, Any]:
    new = [(job, vm, DEPLOY.command_class) for job, vm in resized.added]
    gone = [(job, vm, DESTROY.command_class) for job, vm in resized.removed]
    created = call.connection.exec_driver_sql("SELECT now()").scalar_one()
    return {
        "added": len(new),
        "removed": len(gone),
        "grownby": resized.grown_by,
        "operationid": resized.operation,
        "asyncjobs": [
            {**new_job_fields(call.caller, command_class, created), "jobid": job, "jobinstanceid": vm}
            for job, vm, command_class in (*new, *gone)
        ],
    }


def _dry_run(
    call: Call, managed: Row[Any], members: Sequence[Row[Any]], desired: int, policy: ScaleInPolicy
) -> dict[str, Any]:
    more = desired - len(members)
    if more > 0:
        shown = deploy_more(call, managed, len(members), more, dry_run=True)
        return {"added": shown.fits if isinstance(shown, DryRun) else 0, "removed": 0}
    if more == 0:
        return {"added": 0, "removed": 0, "virtualmachines": []}
    checked = check_bulk_operation(call.connection, call.system, call.caller, scale_in(members, -more, policy))
    rows = [{"id": vm.uuid, "name": vm.name, "state": vm.state} for vm, _ in checked.vms]
    return {"added": 0, "removed": len(rows), "virtualmachines": rows}


COMMANDS: tuple[Command, ...] = (
    Command(
        name=UPDATE_COMMAND,
        description="Changes the number of VMs of a managed bulk deployment: deploys more or destroys some",
        shape=Shape.OBJECT,
        response=UPDATED,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("id", Entity.DEPLOYMENT, "the deployment; it must be managed", required=True),
            integer("virtualmachinecount", "the desired number of virtual machines", minimum=0),
            *HOW_MANAGED,
            string(
                "maxunavailable",
                "the maximum number of VMs that are healed at the same time, or a percentage such as 10%; "
                "default: 1",
            ),
            boolean("managed", "false: the service no longer keeps the number of VMs; existing VMs are kept"),
            boolean(
                "dryrun",
                "true: only return how many VMs would be added, or which would be removed; nothing is changed",
            ),
        ),
        errors=DEPLOYMENT_ERRORS,
        handler=_update,
    ),
)
