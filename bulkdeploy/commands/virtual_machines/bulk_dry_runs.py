"""The responses of dry runs of bulk operations: all VMs, or a summary."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.services.fleets.bulk_operations import BulkRequest, check_bulk_operation
from bulkdeploy.services.fleets.bulk_summaries import summarise_bulk_operation
from bulkdeploy.services.virtual_machines.vm_work import VmJob, VmWork
from bulkdeploy.store.deployments.deployments import plan_hosts


def dry_run(call: Call, request: BulkRequest) -> Mapping[str, Any]:
    """Check the VMs of a bulk operation, and return the response, which is short if the call requests a summary."""
    if call.flag("summary"):
        summary = summarise_bulk_operation(call.connection, call.system, call.caller, request)
        counts = {"count": summary.count, "failedcount": summary.failed_count}
        return {**counts, "virtualmachines": summary.named, "failed": summary.failed}
    checked = check_bulk_operation(call.connection, call.system, call.caller, request)
    counts = {"count": len(checked.vms), "failedcount": len(checked.failed)}
    return {**counts, "virtualmachines": _checked_rows(call, checked.vms), "failed": checked.failed}


def _checked_rows(call: Call, vms: Sequence[tuple[Any, VmWork]]) -> list[dict[str, Any]]:
    planned = {work.host_id for _, work in vms if isinstance(work, VmJob) and work.host_id is not None}
    hosts = plan_hosts(call.connection, sorted(planned)) if planned else {}
    rows = []
    for vm, work in vms:
        place: dict[str, Any] = {}
        if isinstance(work, VmJob) and work.host_id in hosts:
            place = {name: hosts[work.host_id][name] for name in ("hostid", "hostname")}
        rows.append({"id": vm.uuid, "name": vm.name, "state": vm.state, **place})
    return rows
