"""VMs that are added to a managed deployment by its recorded call, and VMs that are removed from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain.deployments.deployment import ScaleInPolicy
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.services.deployments.deploy import DryRun, deploy
from bulkdeploy.services.fleets.bulk_operations import run_bulk_operation
from bulkdeploy.services.fleets.scale_in import scale_in
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.deployments.deployments import DeployedVms, deployment_owner
from bulkdeploy.store.deployments.managed_deployments import lock_managed


@dataclass(frozen=True, slots=True)
class Resized:
    """The result of a changed desired size: the jobs of added and removed VMs.

    ``grown_by`` is the bulk deployment of added VMs, ``operation`` the bulk operation that removes VMs.
    """

    added: Sequence[tuple[str, str]] = ()
    """Pairs of the uuid of a job and the uuid of its VM."""

    removed: Sequence[tuple[UUID, UUID]] = ()
    grown_by: UUID | None = None
    operation: UUID | None = None


def lock_deployment(call: Call, ref: EntityRef) -> Row[Any]:
    """Lock and return a managed deployment.

    Raises:
        PermissionDenied: the caller may not act for the owner of the deployment.
        InvalidParameter: the deployment is not managed.
    """
    owner = deployment_owner(call.connection, ref.id)
    require_access(call.connection, call.caller, owner, f"deployment {ref.uuid}")
    managed = lock_managed(call.connection, ref.id)
    if managed is None:
        raise InvalidParameter(
            "id", str(ref.uuid), "the deployment is not managed; only deployments with managed=true are"
        )
    return managed


def resize(
    call: Call,
    managed: Row[Any],
    members: Sequence[Row[Any]],
    desired: int,
    policy: ScaleInPolicy,
    *,
    partial: bool = False,
) -> Resized:
    """Deploy missing VMs or destroy surplus VMs of a deployment. The caller has locked the deployment."""
    more = desired - len(members)
    if more > 0:
        made = deploy_more(call, managed, len(members), more)
        if isinstance(made, DryRun):
            raise AssertionError("a recorded call never contains dryrun")
        return Resized(added=list(zip(made.job_uuids, made.vm_uuids, strict=True)), grown_by=made.uuid)
    if more == 0:
        return Resized()
    request = scale_in(members, -more, policy, partial=partial)
    removed = run_bulk_operation(call.connection, call.system, call.caller, request)
    return Resized(removed=removed.jobs, operation=removed.uuid)


def deploy_more(
    call: Call,
    managed: Row[Any],
    before: int,
    count: int,
    *,
    dry_run: bool = False,
    recorded: Mapping[str, str] | None = None,
) -> DeployedVms | DryRun:
    """Repeat the recorded call of a deployment for ``count`` more VMs, with the same rules and limits.

    ``before`` is the present number of VMs. ``recorded`` replaces the parameters that are stored with the
    deployment.
    """
    command = find_commands()[managed.command]
    if command.repeat is None:
        raise AssertionError(f"calls of {command.name} are not recorded")
    parameters = {
        **(managed.parameters if recorded is None else recorded),
        **({"dryrun": "true"} if dry_run else {}),
    }
    wanted = command.repeat(replace(call, command=command), parameters, before, count)
    (result,) = deploy(call.connection, call.system, [replace(wanted, grown_from=managed.deployment_id)])
    return result
