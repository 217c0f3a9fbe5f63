"""replaceBulkDeployment and resumeBulkOperation: rolling replacements (one file: one operation)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.replacement_steps import (
    GUEST_DATA,
    REPLACE_COMMAND,
    destroy_vms,
    guest_columns,
    parameter_name,
    recheck_lost_guests,
)
from bulkdeploy.commands.deployments.resizing import deploy_more, lock_deployment
from bulkdeploy.commands.deployments.responses import BULK_DEPLOYMENT, DEPLOYMENT_ERRORS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.domain.deployments.replacements import ReplacementState, ReplaceMethod
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    InvalidCombination,
    InvalidParameter,
    PermissionDenied,
    ResourceLimitExceeded,
)
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.services.deployments.bulk_deployments import list_bulk_deployments
from bulkdeploy.services.deployments.guest_checks import require_checkable
from bulkdeploy.services.fleets.bulk_operations import count_or_share
from bulkdeploy.store.deployments import managed_deployments as managed_store
from bulkdeploy.store.deployments import replacements as store
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.visibility import Visibility

CHANGES = ("templateid", "serviceofferingid", "userdata", "keypairs")
"""Parameters that a replacement may change. All others remain as in the recorded call."""


def _replace(call: Call) -> Mapping[str, Any]:
    """Start the replacement of a managed deployment's VMs. The sweeper executes each step."""
    ref, connection = call.arguments["id"], call.connection
    managed = lock_deployment(call, ref)
    if call.flag("rollback"):
        return _roll_back(call, ref, managed)
    if call.flag("pause"):
        return _pause(call, ref)
    given = {name: call.arguments[name] for name in CHANGES if name in call.arguments}
    method = ReplaceMethod(call.text("method") or ReplaceMethod.RECREATE)
    if method is ReplaceMethod.RESTORE:
        _check_restored(managed.parameters, given)
    if store.open_replacement(connection, ref.id) is not None:
        rule = "a replacement of its virtual machines is in progress; wait for its end, or set rollback=true"
        raise InvalidParameter("id", str(ref.uuid), rule)
    parameters = _changed(managed.parameters, given)
    if method is ReplaceMethod.RECREATE or given.keys() & GUEST_DATA.keys():
        _check_parameters(call, managed, parameters)
    members = managed_store.members_of(connection, ref.id)
    desired = managed.desired_count
    surge = count_or_share("maxsurge", call.text("maxsurge") or "0", desired) or 0
    unavailable = count_or_share("maxunavailable", call.text("maxunavailable") or "1", desired) or 0
    if method is ReplaceMethod.RESTORE:
        surge = 0
    if surge + unavailable == 0:
        rule = "maxsurge and maxunavailable must not both be 0: no virtual machine could be replaced"
        raise InvalidCombination(("maxsurge", "maxunavailable"), rule)
    values = {
        "method": method.value,
        "max_surge": surge,
        "max_unavailable": unavailable,
        "pause_at": _checkpoints(call.text("pauseafter"), len(members)),
        "max_failures": count_or_share("maxfailures", call.text("maxfailures") or "0", desired) or 0,
        "expunge": call.flag("expunge"),
    }
    return _begin(call, ref, managed, parameters, values, [vm.id for vm in members])


def _check_restored(recorded: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Raise an error if VMs cannot get these parameters by method=Restore.

    Raises:
        InvalidCombination: the parameters need method=Recreate.
    """
    if "serviceofferingid" in given:
        rule = "method=Restore cannot change the sizes of VMs: scale them, or use method=Recreate"
        raise InvalidCombination(("method", "serviceofferingid"), rule)
    names = [name for name in CHANGES if name in given and name in GUEST_DATA]
    if names and any(name.startswith("virtualmachines[") for name in recorded):
        rule = (
            "method=Restore cannot change user data and key pairs of a list of different VMs; use method=Recreate"
        )
        raise InvalidCombination(("method", *names), rule)


def _roll_back(call: Call, ref: EntityRef, managed: Row[Any]) -> Mapping[str, Any]:
    """Start a replacement that gives the VMs of the newest replacement their previous parameters again.

    It has the method and the limits of the newest replacement.

    Raises:
        InvalidParameter: there was no replacement, or the previous data of the guests was not recorded.
    """
    connection = call.connection
    last = store.last_replacement(connection, ref.id)
    if last is None:
        raise InvalidParameter("id", str(ref.uuid), "the virtual machines of this deployment were never replaced")
    if last.method == ReplaceMethod.RESTORE:
        _check_restored_back(connection, ref, managed.parameters, last.old_parameters)
    kept = {vm_id for vm_id, state in store.states_of_vms(connection, last.id).items() if state == store.PENDING}
    store.close_replacement(connection, ref.id, ReplacementState.SUPERSEDED)
    members = managed_store.members_of(connection, ref.id)
    names = ("method", "max_surge", "max_unavailable", "max_failures", "expunge")
    values = {**{name: getattr(last, name) for name in names}, "pause_at": []}
    return _begin(call, ref, managed, last.old_parameters, values, [vm.id for vm in members if vm.id not in kept])


def _check_restored_back(
    connection: Connection, ref: EntityRef, now: Mapping[str, str], before: Mapping[str, str]
) -> None:
    """Check that VMs can get the template and the guest data of an earlier call by method=Restore.

    Raises:
        InvalidParameter: the template or the guest data of the earlier call was not recorded.
    """
    template = store.recorded_template(connection, before)
    if template is None:
        rule = "its virtual machines had several templates, and the template of each VM was not recorded"
        raise InvalidParameter("id", str(ref.uuid), rule)
    columns = guest_columns(now, before)
    if columns is None or (columns.get("user_data") == "" and store.has_linked_user_data(connection, template)):
        rule = (
            "its virtual machines had registered user data, user data with details, or the user data of their"
            " template, whose text is not recorded; replace them with method=Restore and this user data"
        )
        raise InvalidParameter("id", str(ref.uuid), rule)


def _pause(call: Call, ref: EntityRef) -> Mapping[str, Any]:
    """Pause a replacement in progress until ``resumeBulkOperation`` is called.

    Running jobs continue to their end.
    """
    replacement = store.open_replacement(call.connection, ref.id)
    if replacement is None or replacement.state != ReplacementState.IN_PROGRESS:
        raise InvalidParameter("id", str(ref.uuid), "the deployment has no replacement in progress")
    changes = {"state": ReplacementState.PAUSED.value, "pause_at": [0, *replacement.pause_at]}
    store.update_replacement(call.connection, replacement.id, changes)
    return _shown(call.connection, ref)


def _begin(
    call: Call,
    ref: EntityRef,
    managed: Row[Any],
    parameters: Mapping[str, str],
    values: Mapping[str, Any],
    vm_ids: list[int],
) -> Mapping[str, Any]:
    check = None if managed.health_check is None else HealthCheck.read(managed.health_check)
    if check is not None:
        require_checkable(call.connection, call.system, check, vm_ids, "id", str(ref.uuid))
    row = {
        **values,
        "deployment_id": ref.id,
        "old_parameters": managed.parameters,
        "new_parameters": dict(parameters),
    }
    store.insert_replacement(call.connection, row, vm_ids)
    managed_store.update_managed(call.connection, ref.id, {"parameters": dict(parameters)})
    return _shown(call.connection, ref)


def _resume(call: Call) -> Mapping[str, Any]:
    """Continue a replacement that is paused or failed.

    New VMs in state Error are destroyed and deployed again.

    Raises:
        InvalidParameter: the deployment has no such replacement.
    """
    ref, connection = call.arguments["id"], call.connection
    managed = lock_deployment(call, ref)
    replacement = store.open_replacement(connection, ref.id)
    if replacement is None or replacement.state == ReplacementState.IN_PROGRESS:
        raise InvalidParameter("id", str(ref.uuid), "the deployment has no replacement that is paused or failed")
    is_paused = replacement.state == ReplacementState.PAUSED
    changes: dict[str, Any] = {"state": ReplacementState.IN_PROGRESS.value}
    if is_paused:
        changes["pause_at"] = replacement.pause_at[1:]
    else:
        changes["failures"] = 0
        states = store.states_of_vms(connection, replacement.id)
        failed = [vm_id for vm_id, state in states.items() if state == store.FAILED]
        store.mark_vms(connection, replacement.id, failed, store.PENDING)
        members = managed_store.members_of(connection, ref.id)
        new = [vm for vm in members if vm.id not in states]
        broken = [vm for vm in new if vm.state == VmState.ERROR]
        if broken:
            destroy_vms(call, broken, expunge=replacement.expunge)
        recheck_lost_guests(connection, managed, replacement, members, states)
    store.update_replacement(connection, replacement.id, changes)
    managed_store.update_managed(connection, ref.id, {})
    return _shown(connection, ref)


def _changed(recorded: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the recorded parameters with new values.

    If the call deployed a list of VMs, every entry gets the values.
    """
    parameters = dict(recorded)
    for name, value in given.items():
        wire = str(value.uuid) if isinstance(value, EntityRef) else str(value)
        replaced = (name, *GUEST_DATA.get(name, ()))
        found = [known for known in parameters if parameter_name(known) in replaced]
        prefixes = {known.partition(".")[0] for known in found if known.lower().startswith("virtualmachines[")}
        if not prefixes and name not in parameters:
            prefixes = {known.rpartition(".")[0] for known in parameters if known.startswith("virtualmachines[")}
        for known in found:
            del parameters[known]
        for prefix in prefixes or {""}:
            parameters[f"{prefix}.{name}" if prefix else name] = wire
    return parameters


def _check_parameters(call: Call, managed: Row[Any], parameters: Mapping[str, str]) -> None:
    """Check that one more VM could be deployed with these parameters.

    Missing capacity, addresses and limits are ignored, because the replacement also removes VMs.

    Raises:
        BulkDeployError: the parameters are invalid.
    """
    try:
        deploy_more(call, managed, 0, 1, dry_run=True, recorded=parameters)
    except (InsufficientCapacity, InsufficientAddresses, ResourceLimitExceeded):
        return


def _checkpoints(given: str | None, vms: int) -> list[int]:
    """Return the numbers of replaced VMs at which to pause, from percentages such as ``10,50``.

    Raises:
        InvalidParameter: a part is not a percentage from 1 to 99.
    """
    parts = [part.strip().removesuffix("%") for part in (given or "").split(",") if part.strip()]
    if any(not part.isascii() or not part.isdigit() or not 0 < int(part) < 100 for part in parts):
        rule = "the value must be percentages from 1 to 99, separated by commas, such as 10,50"
        raise InvalidParameter("pauseafter", given, rule)
    counts = {-(-vms * int(part) // 100) for part in parts}
    return sorted(count for count in counts if count < vms)


def _shown(connection: Connection, ref: EntityRef) -> Mapping[str, Any]:
    return list_bulk_deployments(connection, Visibility(), {"id": ref}, Paging(limit=1)).rows[0]


COMMANDS: tuple[Command, ...] = (
    Command(
        name=REPLACE_COMMAND,
        description="Replaces the VMs of a managed bulk deployment gradually",
        shape=Shape.OBJECT,
        response=BULK_DEPLOYMENT,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("id", Entity.DEPLOYMENT, "the deployment; it must be managed", required=True),
            uuid("templateid", Entity.TEMPLATE, "the new template; default: the present one"),
            uuid(
                "serviceofferingid",
                Entity.SERVICE_OFFERING,
                "the new service offering; only with method Recreate; default: the present one",
            ),
            string("userdata", "the new user data, in base64; default: the present user data", length=1048576),
            string(
                "keypairs", "the names of the new SSH key pairs, separated by commas; default: the present ones"
            ),
            string(
                "method",
                "Recreate (default) deploys new VMs and destroys the old ones; Restore replaces the root disks "
                "of the VMs",
                choices=tuple(ReplaceMethod),
            ),
            string(
                "maxsurge",
                "the number of VMs that may exist beyond the desired number during the replacement, or a "
                "percentage such as 10%; default: 0",
            ),
            string(
                "maxunavailable",
                "the number of VMs that may be unavailable at the same time during the replacement, or a "
                "percentage such as 10%; default: 1",
            ),
            string(
                "pauseafter",
                "pause the replacement each time that one of these percentages of the VMs is replaced, such as "
                "10,50",
            ),
            string(
                "maxfailures",
                "stop the replacement if more VMs fail than this number, or than this percentage such as 10%; "
                "default: 0",
            ),
            boolean(
                "expunge",
                "expunge replaced VMs at once; by default they can be recovered until expunge.delay has passed",
            ),
            boolean("pause", "pause the replacement in progress until resumeBulkOperation"),
            boolean(
                "rollback",
                "true: undo the newest replacement: its VMs are replaced again, with the parameters from "
                "before that replacement",
            ),
        ),
        errors=DEPLOYMENT_ERRORS,
        handler=_replace,
    ),
    Command(
        name="resumeBulkOperation",
        description="Continues the replacement of a managed bulk deployment that is paused or failed",
        shape=Shape.OBJECT,
        response=BULK_DEPLOYMENT,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.DEPLOYMENT, "the bulk deployment", required=True),),
        errors=(PermissionDenied,),
        handler=_resume,
    ),
)
