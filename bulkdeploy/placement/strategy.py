"""What a strategy is: it decides how many VMs of a batch each cluster gets."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bulkdeploy.placement.dispersion import fill_in_order
from bulkdeploy.placement.model import Floats, Ints


@dataclass(frozen=True, slots=True)
class OpenClusters:
    """The clusters with room for at least one VM, in order of their ids, and their pods.

    ``pod`` is the position of a cluster's pod in the ``pod_*`` columns, which count all clusters of the
    pod, open or not, in order of pod ids. ``room``: free slots (see ``rooms.Rooms``). ``cpu_share``:
    share of the CPU in use.
    """

    id: Ints
    owner_vms: Ints
    all_vms: Ints
    room: Ints
    cpu_share: Floats
    pod: Ints
    pod_owner_vms: Ints
    pod_all_vms: Ints
    pod_cpu_share: Floats


class Filling(Protocol):
    """How a strategy goes on from any point of a batch."""

    def __call__(self, taken: Ints, room: Ints, count: int) -> Ints:
        """How many of the next ``count`` VMs each open cluster gets: as many as fit, within its room.

        ``taken`` VMs were given to each cluster already, and ``room`` more fit in each. Asking for a
        and then for b more gives what asking for a + b gives.
        """


def one_after_the_other(order: Ints) -> Filling:
    """Fill each cluster to its room before the next, in the given order of positions."""
    one_segment = np.zeros_like(order)

    def fill(taken: Ints, room: Ints, count: int) -> Ints:
        added = np.zeros_like(taken)
        added[order] = fill_in_order(room[order], one_segment, np.array([count]))
        return added

    return fill


def by_least_cpu(clusters: OpenClusters, *, pods_first: bool) -> Ints:
    """Positions of the clusters by the share of CPU in use, or by that of their pods first; ties by id."""
    keys = [clusters.id, clusters.cpu_share]
    if pods_first:
        keys += [clusters.pod, clusters.pod_cpu_share[clusters.pod]]
    return np.lexsort(keys)
