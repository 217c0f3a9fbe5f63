"""The summary of a dry run: the number of VMs that a bulk operation would process or leave out, by reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.services.fleets.bulk_operations import MOST_REASONS, BulkRequest, check_vms, select_requested
from bulkdeploy.services.system import System
from bulkdeploy.store.virtual_machines.alike_vms import AlikeVms, read_alike_vms, read_names
from bulkdeploy.store.virtual_machines.guests import read_pending_vms

MOST_NAMED = 40
"""A summary names at most this number of VMs."""


@dataclass(frozen=True, slots=True)
class BulkSummary:
    """The number of VMs that a call would process, and the VMs that fail its checks.

    Attributes:
        count: the number of VMs that the call would process.
        named: the oldest of these VMs, at most MOST_NAMED.
        failed_count: the number of VMs that cannot be processed.
        failed: for each reason its number of VMs and the oldest of them; the most frequent MOST_REASONS reasons.
    """

    count: int
    named: Sequence[Mapping[str, Any]]
    failed_count: int
    failed: Sequence[Mapping[str, Any]]


def summarise_bulk_operation(
    connection: Connection, system: System, caller: Caller, request: BulkRequest
) -> BulkSummary:
    """Check all selected VMs of a bulk operation and return a summary of the result. Nothing is written or locked.

    The checks are those of ``check_bulk_operation``. If they cannot tell VMs apart, one VM is checked for all.

    Raises:
        BulkDeployError: under the same conditions as ``run_bulk_operation``, but VMs that cannot be processed are
            no error.
    """
    vm_ids = select_requested(connection, request)
    if request.operation.accepts_alike:
        groups = read_alike_vms(connection, vm_ids, MOST_NAMED)
    else:
        groups = [AlikeVms(vm, 1, [vm.id]) for vm in read_pending_vms(connection, vm_ids)]
    _, checked = check_vms(connection, system, caller, request.operation, [group.vm for group in groups])
    group_of = {str(group.vm.uuid): group for group in groups}
    ready = [group_of[str(vm.uuid)] for vm, _ in checked.vms]
    oldest = nsmallest(MOST_NAMED, (vm_id for group in ready for vm_id in group.oldest_ids))
    reasons: dict[tuple[int, str], dict[str, Any]] = {}
    for row in checked.failed:
        reason = reasons.setdefault(_reason_of(row), {**row, "count": 0})
        reason["count"] += group_of[row["virtualmachineid"]].count
    failed = sorted(reasons.values(), key=lambda reason: -reason["count"])
    return BulkSummary(
        sum(group.count for group in ready),
        read_names(connection, oldest),
        sum(reason["count"] for reason in failed),
        failed[:MOST_REASONS],
    )


def _reason_of(failed: Mapping[str, Any]) -> tuple[int, str]:
    """Return the error code and the text without the VM's own id and name, which are equal for equal reasons."""
    text = str(failed["errortext"])
    for own in (failed["virtualmachineid"], failed["name"]):
        text = text.replace(str(own), "")
    return failed["errorcode"], text
