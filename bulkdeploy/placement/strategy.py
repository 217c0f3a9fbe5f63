"""The declaration of strategies, which determine how many VMs of a batch each cluster gets.

A strategy is one file in ``placement/strategies`` with its ``STRATEGY``, or an object of another distribution in
the entry point group ``bulkdeploy.strategies``. No other module names it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from bulkdeploy.placement.dispersion import fill_in_order
from bulkdeploy.placement.model import Flags, Floats, Ints, ZoneSnapshot, total
from bulkdeploy.placement.rule import Rule


@dataclass(frozen=True)
class OpenClusters:
    """The clusters with capacity for at least one VM, in order of their ids, and their pods.

    ``at`` has their positions in the zone's columns. ``capacity`` is the number of VMs per cluster (see
    ``capacity.Capacity``). ``pod`` is the position of the cluster's pod in the ``pod_*`` columns, which include all
    clusters of the pod in order of pod ids. ``cpu_share`` is the share of the CPU in use.
    """

    zone: ZoneSnapshot
    at: Ints
    capacity: Ints

    @cached_property
    def id(self) -> Ints:
        """The ids of the clusters."""
        return self.zone.clusters.id[self.at]

    @cached_property
    def owner_vms(self) -> Ints:
        """The number of the owner's VMs in each cluster."""
        return self.zone.clusters.owner_vms[self.at]

    @cached_property
    def all_vms(self) -> Ints:
        """The number of all owners' VMs in each cluster."""
        return self.zone.clusters.all_vms[self.at]

    @cached_property
    def cpu_share(self) -> Floats:
        """The share of CPU in use of each cluster."""
        use = self.zone.cluster_use
        return use.cpu_used[self.at] / np.maximum(use.cpu_limit[self.at], 1)

    @cached_property
    def pod(self) -> Ints:
        """The position of each cluster's pod."""
        return self._pods[1][self.at]

    @cached_property
    def pod_owner_vms(self) -> Ints:
        """The number of the owner's VMs in each pod."""
        return self._of_pods(self.zone.clusters.owner_vms)

    @cached_property
    def pod_all_vms(self) -> Ints:
        """The number of all owners' VMs in each pod."""
        return self._of_pods(self.zone.clusters.all_vms)

    @cached_property
    def pod_cpu_share(self) -> Floats:
        """The share of CPU in use of each pod."""
        use = self.zone.cluster_use
        return self._of_pods(use.cpu_used) / np.maximum(self._of_pods(use.cpu_limit), 1)

    @property
    def _pods(self) -> tuple[Ints, Ints]:
        """The ids of all pods, and of each cluster the position of its pod."""
        return self.zone.once("pods", lambda: np.unique(self.zone.clusters.pod_id, return_inverse=True))

    def _of_pods(self, amounts: Ints) -> Ints:
        pods, pod = self._pods
        return total(pod, amounts, len(pods))


class Filling(Protocol):
    """Distributes the VMs of a batch over clusters, a part of the batch at a time."""

    def __call__(self, taken: Ints, capacity: Ints, count: int) -> Ints:
        """Return the number of VMs per open cluster out of the next ``count`` VMs: as many as fit.

        ``taken`` is the number of VMs that each cluster got already, and ``capacity`` the number that it can still
        take. Two calls for a and then b VMs give the same result as one call for a + b VMs.
        """


class MakesFilling(Protocol):
    """A function that prepares the distribution of a batch over clusters."""

    def __call__(self, clusters: OpenClusters, *, pods_first: bool) -> Filling:
        """Return the function that distributes VMs over these clusters.

        If ``pods_first`` is set, the function chooses a pod first and then a cluster inside it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A strategy, which determines how many VMs of a batch each cluster gets.

    Attributes:
        planners: the planner names by which offerings, calls and settings select the strategy, as in CloudStack.
        description: a short description of the order in which clusters are filled.
        filling: creates the function that distributes VMs over clusters.
        order: the position of its planners in lists, lowest first.
        rules: additional rules for requests with one of its planners.
        needs_owner_vms: whether one of these rules reads the number of the owner's VMs on each host.
    """

    planners: tuple[str, ...]
    description: str
    filling: MakesFilling
    order: int = 1000
    rules: tuple[Rule, ...] = ()
    needs_owner_vms: bool = False


def preferred_first(filling: Filling, last_resort: Flags) -> Filling:
    """Return a function that uses the marked clusters only for VMs that do not fit into the other clusters.

    Repeated calls stay consistent, because all other clusters are full before a marked cluster gets a VM.
    """
    if not last_resort.any():
        return filling

    def fill(taken: Ints, capacity: Ints, count: int) -> Ints:
        first = filling(taken, np.where(last_resort, 0, capacity), count)
        missing = count - int(first.sum())
        if missing <= 0:
            return first
        return first + filling(taken + first, np.where(last_resort, capacity, 0), missing)

    return fill


def one_after_the_other(order: Ints) -> Filling:
    """Return a function that fills each cluster before the next one, in the given order of positions."""
    one_segment = np.zeros(len(order), dtype=np.int64)

    def fill(taken: Ints, capacity: Ints, count: int) -> Ints:
        added = np.zeros(len(taken), dtype=np.int64)
        added[order] = fill_in_order(capacity[order], one_segment, np.array([count]))
        return added

    return fill


def least_used_first(clusters: OpenClusters, *, pods_first: bool) -> Filling:
    """Return a function that fills clusters in ascending order of their CPU usage as a share of their capacity.

    With ``pods_first``, pods are ordered by their usage first. Equal shares are ordered by id.
    """
    keys = [clusters.id, clusters.cpu_share]
    if pods_first:
        keys += [clusters.pod, clusters.pod_cpu_share[clusters.pod]]
    return one_after_the_other(np.lexsort(keys))
