"""The effect of an affinity group's VMs on a batch that joins the group."""

from collections.abc import Mapping

import numpy as np

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.placement.model import Ints, PlacementRequest


def has_vms(vms_by_host: Mapping[int, int]) -> bool:
    """Return whether an affinity group has any VM that counts, given its VMs per host."""
    return any(vms_by_host.values())


def vms_on_hosts(host_ids: Ints, vms_by_host: Mapping[int, int]) -> Ints:
    """Return the number of a group's VMs on each host of ``host_ids``. VMs on other hosts are ignored."""
    counts = np.zeros(len(host_ids), dtype=np.int64)
    if not vms_by_host or len(host_ids) == 0:
        return counts
    order = None if (host_ids[1:] >= host_ids[:-1]).all() else np.argsort(host_ids)
    wanted = np.fromiter(vms_by_host.keys(), np.int64, len(vms_by_host))
    found = np.minimum(np.searchsorted(host_ids, wanted, sorter=order), len(host_ids) - 1)
    position = found if order is None else order[found]
    present = host_ids[position] == wanted
    counts[position[present]] = np.fromiter(vms_by_host.values(), np.int64, len(vms_by_host))[present]
    return counts


def needs_one_host(request: PlacementRequest) -> bool:
    """Return whether the batch is in a strict host affinity group without VMs.

    The first VM's host then binds the others.
    """
    return any(
        affinity.kind is AffinityType.HOST_AFFINITY and not has_vms(affinity.vms_by_host)
        for affinity in request.affinities
    )
