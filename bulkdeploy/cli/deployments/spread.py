"""The spread of an owner's VMs over pods and clusters, read from a plan or a deployment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any


@dataclass(frozen=True, slots=True)
class ClusterSpread:
    """The numbers of the owner's VMs in one cluster.

    Attributes:
        before: the number of VMs before the deployment.
        added: the number of VMs that the deployment adds.
        capacity: the number of VMs of this deployment that fitted before it, or None if the cluster was not
            eligible.
        succeeded: the number of added VMs whose jobs succeeded, or None if this is unknown.
    """

    pod: str
    name: str
    before: int
    added: int
    capacity: int | None
    succeeded: int | None = None
    id: str = ""
    pod_id: str = ""

    @property
    def after(self) -> int:
        """The number of the owner's VMs in the cluster after the deployment."""
        return self.before + self.added

    @property
    def left(self) -> int:
        """The number of further VMs that fit into the cluster."""
        return max(0, (self.capacity or 0) - self.added)


@dataclass(frozen=True, slots=True)
class PodSpread:
    """The clusters of one pod, with their sums."""

    name: str
    clusters: tuple[ClusterSpread, ...]

    @property
    def before(self) -> int:
        """The number of the owner's VMs before the deployment, in all clusters of the pod."""
        return sum(one.before for one in self.clusters)

    @property
    def added(self) -> int:
        """The number of VMs that the deployment adds, in all clusters of the pod."""
        return sum(one.added for one in self.clusters)

    @property
    def after(self) -> int:
        """The number of the owner's VMs after the deployment, in all clusters of the pod."""
        return self.before + self.added

    @property
    def left(self) -> int:
        """The number of further VMs that would fit, in all clusters of the pod."""
        return sum(one.left for one in self.clusters)


def read_spread(row: Mapping[str, Any]) -> list[ClusterSpread]:
    """Return the eligible clusters of a plan, or of an object of listBulkDeployments, with their planned VMs."""
    return [
        ClusterSpread(
            str(one.get("podname")),
            str(one.get("clustername")),
            int(one.get("before") or 0),
            int(one.get("added") or 0),
            one.get("capacity"),
            one.get("succeeded"),
            str(one.get("clusterid")),
            str(one.get("podid")),
        )
        for one in row.get("clusters") or ()
    ]


def by_pod(spread: Iterable[ClusterSpread]) -> list[PodSpread]:
    """Return the pods with their clusters. Both are sorted by name."""
    ordered = sorted(spread, key=lambda one: (one.pod, one.pod_id, one.name))
    pods = groupby(ordered, key=lambda one: (one.pod, one.pod_id))
    return [PodSpread(name, tuple(clusters)) for (name, _), clusters in pods]
