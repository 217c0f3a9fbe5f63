"""updateBulkDeployment, and the comparison of managed deployments with their desired size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, Row

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.recorded_calls import MANAGED
from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import boolean, integer, uuid
from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY, Caller
from bulkdeploy.domain.deployment import ScaleInPolicy
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    InvalidParameter,
    OwnerDisabled,
    PermissionDenied,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.provisioning.kinds.deploy_virtual_machine import DEPLOY
from bulkdeploy.provisioning.kinds.destroy_virtual_machine import DESTROY
from bulkdeploy.services.deployments.deploy import DryRun, deploy
from bulkdeploy.services.fleets.bulk_operations import BulkDryRun
from bulkdeploy.services.fleets.scale_in import UPDATE_COMMAND, scale_in
from bulkdeploy.services.jobs.bulk_jobs import new_job_fields
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.callers import caller_by_id
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.deployments import managed_deployments as store
from bulkdeploy.store.deployments.deployments import DeployedVms, deployment_owner

log = structlog.get_logger(__name__)

SEEN_AFTER_S = 30.0
"""Seconds after the sweeper has added or removed VMs until it compares the deployment again."""

UPDATED = Response(
    "bulkdeployment",
    (
        text("id", "the deployment"),
        number("virtualmachinecount", "VMs that it is to have"),
        number("before", "VMs that it had"),
        number("added", "VMs that are deployed, or of a dry run: that would be"),
        number("removed", "VMs that are destroyed, or of a dry run: that would be"),
        text("grownby", "the bulk deployment of the new VMs; listBulkDeployments shows its progress"),
        text("operationid", "the destruction of the removed VMs; listBulkOperations shows its progress"),
        objects("asyncjobs", "the jobs of the VMs that are added or removed", ASYNC_JOB.fields),
        objects(
            "virtualmachines",
            "of a dry run: the VMs that would be removed",
            (text("id", "the VM"), text("name", "its name"), text("state", "its state")),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Resized:
    """The jobs, the deployment and the operation that give a deployment its desired size."""

    added: Sequence[tuple[str, str]] = ()
    """Pairs of a job's and its VM's uuid."""

    removed: Sequence[tuple[UUID, UUID]] = ()
    grown_by: UUID | None = None
    operation: UUID | None = None


def _update(call: Call) -> Mapping[str, Any]:
    """Change the desired size of a managed deployment, and begin to add or remove VMs in the same transaction."""
    ref, connection = call.arguments["id"], call.connection
    given = call.arguments
    count, policy_name = given.get("virtualmachinecount"), given.get("scaleinpolicy")
    is_kept, is_dry = call.flag("managed", default=True), call.flag("dryrun")
    require_access(connection, call.caller, deployment_owner(connection, ref.id), f"deployment {ref.uuid}")
    managed = store.lock_managed(connection, ref.id)
    if managed is None:
        raise InvalidParameter("id", str(ref.uuid), "it is not managed: only calls with managed=true make such")
    members = store.members_of(connection, ref.id)
    policy = ScaleInPolicy(policy_name or managed.scale_in_policy)
    desired = managed.desired_count if count is None else count
    answer = {"id": ref.uuid, "virtualmachinecount": desired, "before": len(members)}
    if not is_kept:
        if not is_dry:
            store.delete_managed(connection, ref.id)
        return {**answer, "added": 0, "removed": 0, "asyncjobs": []}
    if is_dry:
        return {**answer, **_dry_run(call, managed, members, desired, policy)}
    store.update_managed(connection, ref.id, {"desired_count": desired, "scale_in_policy": policy.value})
    resized = _resize(call, managed, members, desired, policy)
    new = [(job, vm, DEPLOY.command_class) for job, vm in resized.added]
    gone = [(job, vm, DESTROY.command_class) for job, vm in resized.removed]
    created = connection.exec_driver_sql("SELECT now()").scalar_one()
    return {
        **answer,
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
        shown = _deploy_more(call, managed, len(members), more, dry_run=True)
        return {"added": shown.fits if isinstance(shown, DryRun) else 0, "removed": 0}
    if more == 0:
        return {"added": 0, "removed": 0, "virtualmachines": []}
    shown_in = scale_in(call.connection, call.system, call.caller, members, -more, policy, dry_run=True)
    vms = shown_in.vms if isinstance(shown_in, BulkDryRun) else ()
    rows = [{"id": vm.uuid, "name": vm.name, "state": vm.state} for vm, _ in vms]
    return {"added": 0, "removed": len(rows), "virtualmachines": rows}


def _resize(
    call: Call,
    managed: Row[Any],
    members: Sequence[Row[Any]],
    desired: int,
    policy: ScaleInPolicy,
    *,
    partial: bool = False,
) -> Resized:
    """Deploy the VMs that are missing, or destroy those that are too many. The caller has locked the deployment."""
    more = desired - len(members)
    if more > 0:
        made = _deploy_more(call, managed, len(members), more)
        if isinstance(made, DryRun):
            raise AssertionError("a recorded call is no dry run")
        return Resized(added=list(zip(made.job_uuids, made.vm_uuids, strict=True)), grown_by=made.uuid)
    if more == 0:
        return Resized()
    removed = scale_in(call.connection, call.system, call.caller, members, -more, policy, partial=partial)
    if isinstance(removed, BulkDryRun):
        raise AssertionError("no dry run was asked for")  # noqa: TRY004 - a defect, not a wrong type
    return Resized(removed=removed.jobs, operation=removed.uuid)


def _deploy_more(
    call: Call, managed: Row[Any], before: int, count: int, *, dry_run: bool = False
) -> DeployedVms | DryRun:
    """Make the recorded call again for ``count`` VMs, by the same rules and limits."""
    command = find_commands()[managed.command]
    if command.repeat is None:
        raise AssertionError(f"calls of {command.name} are not recorded")
    parameters = {**managed.parameters, **({"dryrun": "true"} if dry_run else {})}
    wanted = command.repeat(replace(call, command=command), parameters, before, count)
    (result,) = deploy(call.connection, call.system, [replace(wanted, grown_from=managed.deployment_id)])
    return result


def reconcile_if_due(connection: Connection, *, system: System, deployment_id: int, user_id: int) -> None:
    """Give a managed deployment its desired size, in the name of the user who made it.

    Another transaction that works on the deployment, or has just done so, is left alone.

    Raises:
        BulkDeployError: VMs cannot be added or removed; nothing is changed.
    """
    managed = store.lock_if_due(connection, deployment_id)
    if managed is None:
        return
    caller = _caller(connection, user_id)
    command = find_commands()[managed.command]
    call = Call(command=command, caller=caller, arguments={}, system=system, connection=connection, method="POST")
    members = store.members_of(connection, deployment_id)
    policy = ScaleInPolicy(managed.scale_in_policy)
    resized = _resize(call, managed, members, managed.desired_count, policy, partial=True)
    store.put_off(connection, deployment_id, SEEN_AFTER_S)
    after_commit(connection, partial(_log_resized, deployment_id, resized))


def put_off_resizing(connection: Connection, *, system: System, deployment_id: int, user_id: int, why: str) -> None:
    """Keep why a managed deployment did not get its desired size; the next try is due after a longer pause."""
    del system, user_id
    store.note_failure(connection, deployment_id, why)
    after_commit(connection, partial(_log_failure, deployment_id, why))


def _log_resized(deployment_id: int, resized: Resized, _: object) -> None:
    log.info("deployment_resized", deployment=deployment_id, added=len(resized.added), removed=len(resized.removed))


def _log_failure(deployment_id: int, why: str, _: object) -> None:
    log.warning("deployment_not_resized", deployment=deployment_id, why=why)


def _caller(connection: Connection, user_id: int) -> Caller:
    caller = caller_by_id(connection, user_id)
    if caller is None:
        raise PermissionDenied("the user who made the deployment is disabled or was deleted")
    return caller


COMMANDS: tuple[Command, ...] = (
    Command(
        name=UPDATE_COMMAND,
        description="Changes the number of VMs of a managed bulk deployment: deploys more or destroys some",
        shape=Shape.OBJECT,
        response=UPDATED,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("id", Entity.DEPLOYMENT, "the deployment, which was made with managed=true", required=True),
            integer("virtualmachinecount", "how many VMs it is to have", minimum=0),
            MANAGED[1],
            boolean("managed", "false: the number of VMs is not kept any more; the VMs stay"),
            boolean("dryrun", "check only, and answer how many VMs would be added or which would be removed"),
        ),
        errors=(
            PermissionDenied,
            OwnerDisabled,
            ResourceLimitExceeded,
            InsufficientCapacity,
            InsufficientAddresses,
            ResourceUnavailable,
        ),
        handler=_update,
    ),
)
