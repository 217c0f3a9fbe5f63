"""The execution of one step of a rolling replacement, which ``domain.deployments.replacements`` chooses.

A step is one transaction and depends only on the present state of the VMs, so a step that was lost is chosen again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.resizing import deploy_more
from bulkdeploy.domain.deployments.health_checks import GuestHealth
from bulkdeploy.domain.deployments.replacements import (
    Member,
    ReplacementRules,
    ReplacementState,
    ReplacementStep,
    ReplaceMethod,
    next_step,
)
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.kinds.virtual_machines.restore_virtual_machine import RESTORE
from bulkdeploy.services.deployments.user_data import check_user_data
from bulkdeploy.services.fleets.bulk_operations import (
    BulkRequest,
    VmsRefused,
    destruction,
    run_bulk_operation,
)
from bulkdeploy.services.fleets.vm_selection import select_exactly
from bulkdeploy.services.virtual_machines.virtual_machine_restoring import restore_operation
from bulkdeploy.store.deployments import replacements as store
from bulkdeploy.store.deployments.guest_health import forget_health, health_of_guests
from bulkdeploy.store.virtual_machines.virtual_machine_changes import update_vms

REPLACE_COMMAND = "replaceBulkDeployment"


def take_step(call: Call, managed: Row[Any], replacement: Row[Any], vms: Sequence[Row[Any]]) -> ReplacementStep:
    """Execute the next step of a replacement that is in progress.

    The caller has locked the deployment.

    Args:
        call: a call in the name of the user who created the deployment.
        managed: the row of the managed deployment.
        replacement: the row of the replacement.
        vms: the VMs of the deployment.

    Raises:
        BulkDeployError: VMs cannot be deployed, destroyed or restored.
    """
    connection = call.connection
    method = ReplaceMethod(replacement.method)
    failures = replacement.failures
    if method is ReplaceMethod.RESTORE:
        failures += store.settle_vms(connection, replacement, RESTORE.name)
    states = store.states_of_vms(connection, replacement.id)
    health = _health_of_members(connection, managed, vms, states)
    lost = [vm.id for vm in vms if states.get(vm.id) == store.DONE and health[vm.id].is_lost]
    if lost:
        store.mark_vms(connection, replacement.id, lost, store.FAILED)
        states |= dict.fromkeys(lost, store.FAILED)
        failures += len(lost)
    rules = ReplacementRules(
        method=method,
        desired=managed.desired_count,
        total=replacement.vm_count,
        max_surge=replacement.max_surge,
        max_unavailable=replacement.max_unavailable,
        pause_at=replacement.pause_at[0] if replacement.pause_at else None,
        max_failures=replacement.max_failures,
        failures=failures,
    )
    step = next_step(rules, [_member(vm, method, states.get(vm.id), health[vm.id]) for vm in vms])
    by_id = {vm.id: vm for vm in vms}
    if step.state is ReplacementState.IN_PROGRESS:
        failures += len(step.failed)
        if step.remove:
            destroy_vms(call, [by_id[vm_id] for vm_id in step.remove], expunge=replacement.expunge)
        elif step.create:
            deploy_more(call, managed, len(vms), step.create)
        if step.restore:
            failures += _restore(call, replacement, [by_id[vm_id] for vm_id in step.restore])
    store.end_step(connection, replacement.id, step.state, failures)
    return replace(step, create=0) if step.remove else step


def _health_of_members(
    connection: Connection, managed: Row[Any], vms: Sequence[Row[Any]], states: Mapping[int, str]
) -> Mapping[int, GuestHealth]:
    """Return the health of the guests of a deployment's VMs, by VM id.

    Guests that were not replaced yet count as answering, as do all guests if there is no health check. A check that
    no guest can pass, or a network failure, therefore stops a replacement and never accelerates it.
    """
    health = {vm.id: GuestHealth(is_answering=True) for vm in vms}
    if managed.health_check is not None:
        replaced = [vm.id for vm in vms if states.get(vm.id) != store.PENDING]
        found = health_of_guests(connection, replaced, managed.health_timeout)
        health |= {vm_id: found.get(vm_id, GuestHealth()) for vm_id in replaced}
    return health


def recheck_lost_guests(
    connection: Connection,
    managed: Row[Any],
    replacement: Row[Any],
    members: Sequence[Row[Any]],
    states: Mapping[int, str],
) -> None:
    """Start the timeout of guests that did not answer in time again, because they may answer by now.

    New VMs whose guests still do not answer are destroyed later, and do not count as failures again.
    """
    health = _health_of_members(connection, managed, members, states)
    lost = [vm.id for vm in members if health[vm.id].is_lost]
    forget_health(connection, lost)
    store.note_counted(connection, replacement.id, [vm_id for vm_id in lost if vm_id not in states])


def _member(vm: Row[Any], method: ReplaceMethod, state: str | None, health: GuestHealth) -> Member:
    """Return the VM in the form that the replacement rules use. VMs with delete protection are not recreated."""
    is_kept = method is ReplaceMethod.RECREATE and vm.delete_protection
    runs = vm.state == VmState.RUNNING and not vm.has_job
    return Member(
        vm.id,
        is_old=state == store.PENDING and not is_kept,
        is_available=runs and health.is_answering,
        is_broken=vm.state == VmState.ERROR or health.is_lost,
        has_job=vm.has_job,
        has_failed=state == store.FAILED,
        was_counted=state == store.COUNTED,
        awaits_answer=runs and not health.is_answering and not health.is_lost and state != store.FAILED,
    )


def destroy_vms(call: Call, vms: Sequence[Row[Any]], *, expunge: bool) -> None:
    """Destroy VMs by one bulk operation. VMs that cannot be destroyed now are skipped."""
    request = BulkRequest(
        command=REPLACE_COMMAND, operation=destruction(expunge=expunge), selection=select_exactly(vms), partial=True
    )
    run_bulk_operation(call.connection, call.system, call.caller, request)


def _restore(call: Call, replacement: Row[Any], vms: Sequence[Row[Any]]) -> int:
    """Create the jobs that restore VMs, and return the number of VMs that cannot be restored.

    New user data and key pairs are written immediately, so that the jobs restore the VMs with them.
    """
    connection = call.connection
    template = store.recorded_template(connection, replacement.new_parameters)
    request = BulkRequest(
        command=REPLACE_COMMAND,
        operation=restore_operation(template),
        selection=select_exactly(vms),
        partial=True,
    )
    try:
        failed = run_bulk_operation(connection, call.system, call.caller, request).failed
    except VmsRefused as refused:
        failed = refused.failed
    unready_uuids = {each["virtualmachineid"] for each in failed}
    unready = [vm.id for vm in vms if str(vm.uuid) in unready_uuids]
    begun = [vm.id for vm in vms if str(vm.uuid) not in unready_uuids]
    store.mark_vms(connection, replacement.id, unready, store.FAILED)
    store.mark_vms(connection, replacement.id, begun, store.UNDERWAY)
    columns = guest_columns(replacement.old_parameters, replacement.new_parameters)
    if begun and columns:
        update_vms(connection, dict.fromkeys(begun, columns))
    return len(unready)


GUEST_DATA: Mapping[str, tuple[str, ...]] = {
    "userdata": ("userdataid", "userdatadetails"),
    "keypairs": ("keypair",),
}
"""Parameters with data that guests get at their first start, and other parameters for the same data."""


def parameter_name(recorded: str) -> str:
    """Return the lower-case parameter name of a recorded entry, without the VM, the index and the field.

    The name of ``virtualmachines[0].userdatadetails[0].color`` is ``userdatadetails``.
    """
    name = recorded.lower()
    if name.startswith("virtualmachines["):
        name = name.partition(".")[2]
    return name.partition("[")[0]


def guest_columns(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the changed columns of VMs, user data and key pairs, between two recorded calls.

    Returns None if the later call contains registered user data or values of variables, because the resulting text
    is not recorded.
    """
    columns: dict[str, Any] = {}
    for name, others in GUEST_DATA.items():
        old, new = (
            {each: value for each, value in given.items() if parameter_name(each) in (name, *others)}
            for given in (before, after)
        )
        if old == new:
            continue
        if name == "userdata":
            if {parameter_name(each) for each in new} - {name}:
                return None
            text = next(iter(new.values()), "")
            columns["user_data"] = check_user_data(text, method="POST", most=len(text)) if text else ""
        else:
            names = ",".join(new.values()).split(",")
            columns["key_pairs"] = sorted({each.strip() for each in names} - {""})
    return columns
