"""The spread of VMs over clusters, and the check whether it follows the rules. Pure values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any


@dataclass(frozen=True, slots=True)
class ClusterSpread:
    """The owner's VMs in one cluster: before a deployment, and added by it.

    ``capacity`` is how many VMs of the deployment's kind the cluster could hold before it; None: it was
    not eligible.
    """

    pod: str
    cluster: str
    before: int
    added: int
    capacity: int | None

    @property
    def after(self) -> int:
        """All of the owner's VMs in the cluster."""
        return self.before + self.added

    @property
    def remaining_capacity(self) -> int:
        """The number of further VMs that the cluster could hold."""
        return 0 if self.capacity is None else self.capacity - self.added


@dataclass(frozen=True, slots=True)
class PodSpread:
    """The clusters of one pod, with their sums."""

    pod: str
    clusters: tuple[ClusterSpread, ...]

    @property
    def before(self) -> int:
        """VMs before, in all clusters."""
        return sum(cluster.before for cluster in self.clusters)

    @property
    def added(self) -> int:
        """VMs added, in all clusters."""
        return sum(cluster.added for cluster in self.clusters)

    @property
    def after(self) -> int:
        """VMs before and added."""
        return self.before + self.added


def read_spread(deployment: Mapping[str, Any]) -> list[ClusterSpread]:
    """Return the spread in an object of listBulkDeployments: every eligible cluster, as planned."""
    return [
        ClusterSpread(row["podname"], row["clustername"], row["before"], row["added"], row.get("capacity"))
        for row in deployment.get("clusters", ())
    ]


def by_pod(spread: Sequence[ClusterSpread]) -> list[PodSpread]:
    """Return pods by name, with their clusters by name."""
    ordered = sorted(spread, key=lambda one: (one.pod, one.cluster))
    return [PodSpread(pod, tuple(clusters)) for pod, clusters in groupby(ordered, key=lambda one: one.pod)]


def uneven(spread: Sequence[ClusterSpread]) -> list[str]:
    """Return the breaches of count dispersion in words; the list is empty if there are none.

    No cluster that received a VM ends more than one above an eligible cluster that still had room.
    """
    roomy = [one for one in spread if one.remaining_capacity > 0]
    if not roomy:
        return []
    lowest = min(roomy, key=lambda one: one.after)
    return [
        f"{one.cluster} got {one.added} and has {one.after}, while {lowest.cluster} has {lowest.after} and had room"
        for one in spread
        if one.added and one.after > lowest.after + 1
    ]
