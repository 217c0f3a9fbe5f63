"""The reconciliation of managed deployments with their desired state, run by the sweeper."""

from functools import partial

import structlog
from sqlalchemy import Connection

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.replacement_steps import take_step
from bulkdeploy.commands.deployments.resizing import Resized, resize
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.deployments.deployment import ScaleInPolicy
from bulkdeploy.domain.deployments.replacements import ReplacementState, ReplacementStep
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.fleets.healing import ALERT_AT, alert_operators, heal
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.callers import caller_by_id
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.deployments import managed_deployments as store
from bulkdeploy.store.deployments.replacements import open_replacement

log = structlog.get_logger(__name__)

SEEN_AFTER_S, STEP_AFTER_S = 30.0, 2.0
"""The time until the next comparison of a deployment, and after a change or a replacement step, in seconds."""


def reconcile_if_due(connection: Connection, *, system: System, deployment_id: int, user_id: int) -> None:
    """Deploy or remove VMs of a managed deployment until it has its desired size, as the user who created it.

    If the deployment's VMs are being replaced, the next step of the replacement is executed. Surplus VMs are kept
    while a replacement is paused or failed. Nothing happens if another transaction works on the deployment or has
    just done so.

    Raises:
        BulkDeployError: VMs cannot be added or removed; nothing is changed.
    """
    managed = store.lock_if_due(connection, deployment_id)
    if managed is None:
        return
    # A role of a project that denies the recorded command also denies resizing and healing in the member's name.
    caller = _caller(connection, user_id).calling(managed.command)
    command = find_commands()[managed.command]
    call = Call(command=command, caller=caller, arguments={}, system=system, connection=connection, method="POST")
    members = store.members_of(connection, deployment_id)
    replacement = open_replacement(connection, deployment_id)
    if replacement is not None and replacement.state == ReplacementState.IN_PROGRESS:
        step = take_step(call, managed, replacement, members)
        store.put_off(connection, deployment_id, STEP_AFTER_S)
        after_commit(connection, partial(_log_step, deployment_id, step))
        return
    if managed.autoheal and store.is_heal_due(connection, deployment_id):
        healed = heal(connection, system, caller, managed, members)
        if healed:
            store.put_off(connection, deployment_id, STEP_AFTER_S)
            after_commit(connection, partial(_log_healed, deployment_id, healed))
            return
    policy = ScaleInPolicy(managed.scale_in_policy)
    resized = Resized()
    if replacement is None or len(members) < managed.desired_count:
        resized = resize(call, managed, members, managed.desired_count, policy, partial=True)
    store.put_off(connection, deployment_id, SEEN_AFTER_S)
    after_commit(connection, partial(_log_resized, deployment_id, resized))


def put_off_resizing(connection: Connection, *, system: System, deployment_id: int, user_id: int, why: str) -> None:
    """Record why a managed deployment did not reach its desired state, and postpone the next attempt.

    The pause becomes longer with each failure. Repeated failures create an alert for operators.
    """
    del system, user_id
    if store.note_failure(connection, deployment_id, why) == ALERT_AT:
        alert_operators(connection, deployment_id, why)
    after_commit(connection, partial(_log_failure, deployment_id, why))


def _log_resized(deployment_id: int, resized: Resized, _: object) -> None:
    log.info("deployment_resized", deployment=deployment_id, added=len(resized.added), removed=len(resized.removed))


def _log_step(deployment_id: int, step: ReplacementStep, _: object) -> None:
    if step.create or step.remove or step.restore or step.state is not ReplacementState.IN_PROGRESS:
        log.info(
            "deployment_replaced",
            deployment=deployment_id,
            state=step.state.value,
            created=step.create,
            removed=len(step.remove),
            restored=len(step.restore),
        )


def _log_healed(deployment_id: int, healed: int, _: object) -> None:
    log.info("deployment_healed", deployment=deployment_id, vms=healed)


def _log_failure(deployment_id: int, why: str, _: object) -> None:
    log.warning("deployment_not_resized", deployment=deployment_id, why=why)


def _caller(connection: Connection, user_id: int) -> Caller:
    caller = caller_by_id(connection, user_id)
    if caller is None:
        raise PermissionDenied("the user who created the deployment is disabled or was deleted")
    return caller
