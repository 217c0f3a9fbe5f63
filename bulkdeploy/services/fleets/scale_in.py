"""Managed deployments: selects and removes VMs beyond the desired size."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from bulkdeploy.domain.deployments.deployment import ScaleInPolicy
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.services.fleets.bulk_operations import BulkRequest, destruction
from bulkdeploy.services.fleets.vm_selection import select_exactly

UPDATE_COMMAND = "updateBulkDeployment"


def scale_in(
    members: Sequence[Row[Any]], count: int, policy: ScaleInPolicy, *, partial: bool = False
) -> BulkRequest:
    """Return the bulk operation that destroys ``count`` of these VMs.

    VMs with delete protection are never selected.

    If ``partial`` is true, VMs that cannot be destroyed are left out, and fewer than ``count`` are accepted.

    Raises:
        InvalidParameter: fewer VMs than ``count`` may be destroyed.
    """
    chosen = choose_to_remove(members, count, policy)
    if len(chosen) < count and not (partial and chosen):
        left = len(members) - len(chosen)
        rule = f"{left} of its virtual machines have delete protection enabled and are not removed"
        raise InvalidParameter("virtualmachinecount", len(members) - count, rule)
    return BulkRequest(
        command=UPDATE_COMMAND,
        operation=destruction(expunge=False),
        selection=select_exactly(chosen),
        partial=partial,
    )


def choose_to_remove(members: Sequence[Row[Any]], count: int, policy: ScaleInPolicy) -> list[Row[Any]]:
    """Return the VMs to remove, at most ``count``, in the order of the policy.

    VMs in state Error are removed first.

    ``members`` are all VMs of the deployment, the oldest first.
    """
    removable = [vm for vm in members if not vm.delete_protection]
    broken = [vm for vm in removable if vm.state == VmState.ERROR]
    whole = [vm for vm in removable if vm.state != VmState.ERROR]
    if policy is ScaleInPolicy.BALANCED:
        turns = _turns([vm for vm in members if vm not in broken])
        whole.sort(key=lambda vm: (-turns[vm.id], -vm.id))
    elif policy is ScaleInPolicy.NEWEST_FIRST:
        whole.reverse()
    return [*broken, *whole][:count]


def _turns(members: Sequence[Row[Any]]) -> Mapping[int, int]:
    """Assign a number to each VM in its cluster, and return the numbers by VM id.

    Removing the VMs with the highest numbers first keeps the spread even. Within a cluster, VMs are numbered
    alternately host by host. VMs with delete protection come first, then the oldest VMs.
    """
    of_host: Counter[tuple[int | None, int | None]] = Counter()
    on_host: dict[int, int] = {}
    by_age = sorted(members, key=lambda vm: (not vm.delete_protection, vm.id))
    for vm in by_age:
        on_host[vm.id] = of_host[vm.cluster_id, vm.host_id]
        of_host[vm.cluster_id, vm.host_id] += 1
    of_cluster: Counter[int | None] = Counter()
    turns: dict[int, int] = {}
    for vm in sorted(by_age, key=lambda vm: (not vm.delete_protection, on_host[vm.id], vm.id)):
        turns[vm.id] = of_cluster[vm.cluster_id]
        of_cluster[vm.cluster_id] += 1
    return turns
