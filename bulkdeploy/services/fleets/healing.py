"""Healing of managed deployments: replaces VMs in state Error, and starts VMs that stopped unexpectedly."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.services.fleets.bulk_operations import BulkRequest, count_or_share, destruction, run_bulk_operation
from bulkdeploy.services.fleets.vm_selection import select_exactly
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machine_starting import start_operation
from bulkdeploy.services.virtual_machines.vm_work import VmOperation
from bulkdeploy.store.deployments import healing as store
from bulkdeploy.store.jobs.alerts import record_alerts

HEAL_COMMAND = "updateBulkDeployment"
ALERT_AT = 3
"""So many tries in a row that did not help are told to operators by an alert."""


def heal(
    connection: Connection, system: System, caller: Caller, managed: Row[Any], members: Sequence[Row[Any]]
) -> int:
    """Start the repair of broken VMs of a deployment that the caller has locked, and return their number.

    Stopped VMs are started. VMs in state Error are destroyed; the deployment's desired size then creates new VMs.
    At most ``heal_at_once`` VMs have jobs at any time. Each attempt that does not reduce the number of broken VMs
    doubles the time to the next attempt.

    Raises:
        BulkDeployError: the VMs cannot be started or destroyed.
    """
    broken = set(store.broken_vms(connection, [vm.id for vm in members], managed.heal_after))
    if not broken:
        store.note_healthy(connection, managed.deployment_id)
        return 0
    under_way = sum(vm.has_job and vm.state != VmState.RUNNING for vm in members)
    at_once = max(1, count_or_share("maxunavailable", managed.heal_at_once, managed.desired_count) or 0)
    chosen = [vm for vm in members if vm.id in broken][: max(0, at_once - under_way)]
    if not chosen:
        return 0
    lost = [vm for vm in chosen if vm.state == VmState.ERROR]
    stopped = [vm for vm in chosen if vm.state != VmState.ERROR]
    for vms, operation in ((lost, destruction(expunge=False)), (stopped, start_operation())):
        _run(connection, system, caller, vms, operation)
    tries = store.note_healing(connection, managed.deployment_id, len(broken))
    if tries == ALERT_AT:
        names = ", ".join(vm.name for vm in chosen[:5])
        alert_operators(
            connection, managed.deployment_id, f"{tries} tries to heal virtual machines did not help: {names}"
        )
    return len(chosen)


def alert_operators(connection: Connection, deployment_id: int, why: str) -> None:
    """Write an alert about a managed deployment."""
    uuid = store.deployment_uuid(connection, deployment_id)
    record_alerts(connection, [Alert(AlertType.USER_VM, f"bulk deployment {uuid}: {why}")])


def _run(
    connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]], operation: VmOperation
) -> None:
    if vms:
        request = BulkRequest(
            command=HEAL_COMMAND, operation=operation, selection=select_exactly(vms), partial=True
        )
        run_bulk_operation(connection, system, caller, request)
