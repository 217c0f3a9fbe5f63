"""The spread of VMs over pods and clusters, from a plan or a deployment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_CLUSTERS = 200


@dataclass(frozen=True, slots=True)
class ClusterSpread:
    """VMs of one cluster; each count is of VMs.

    Attributes:
        left: VMs for which there is room after the call.
        succeeded: of ``added`` those that are there; None where that is not known.
    """

    id: str
    name: str
    before: int
    added: int
    left: int
    succeeded: int | None

    @property
    def whole(self) -> int:
        """The number of such VMs that the cluster could hold."""
        return self.before + self.added + self.left


@dataclass(frozen=True, slots=True)
class PodSpread:
    """A pod and its clusters."""

    id: str
    name: str
    clusters: tuple[ClusterSpread, ...]

    @property
    def before(self) -> int:
        """VMs that were there."""
        return sum(one.before for one in self.clusters)

    @property
    def added(self) -> int:
        """VMs that come."""
        return sum(one.added for one in self.clusters)

    @property
    def left(self) -> int:
        """VMs that would fit besides."""
        return sum(one.left for one in self.clusters)


@dataclass(frozen=True, slots=True)
class Spread:
    """Pods in order of their names, and hosts that take nothing, by reason."""

    pods: tuple[PodSpread, ...]
    excluded: Sequence[Mapping[str, Any]]
    left_out: int = 0

    @property
    def largest_cluster(self) -> int:
        """The number of VMs that the largest cluster could hold, at least 1: the length of a plan's bar."""
        return max((one.whole for pod in self.pods for one in pod.clusters), default=1) or 1

    @property
    def fullest_cluster(self) -> int:
        """The number of VMs of the fullest cluster after the deployment, at least 1: the length of its bar."""
        return max((one.before + one.added for pod in self.pods for one in pod.clusters), default=1) or 1


def spread_of(row: Mapping[str, Any]) -> Spread:
    """Return the spread that a plan or a deployment has; clusters beyond MOST_CLUSTERS are counted and left out."""
    clusters = sorted(
        row.get("clusters") or (), key=lambda one: (str(one.get("podname")), str(one.get("clustername")))
    )
    shown = (
        clusters if len(clusters) <= MOST_CLUSTERS else [one for one in clusters if one["added"]][:MOST_CLUSTERS]
    )
    pods: dict[str, list[Mapping[str, Any]]] = {}
    for one in shown:
        pods.setdefault(str(one.get("podid")), []).append(one)
    return Spread(
        tuple(
            PodSpread(pod, str(rows[0].get("podname")), tuple(_cluster(one) for one in rows))
            for pod, rows in pods.items()
        ),
        sorted(row.get("excluded") or (), key=lambda one: -int(one["hosts"])),
        len(clusters) - len(shown),
    )


def _cluster(row: Mapping[str, Any]) -> ClusterSpread:
    added = int(row.get("added") or 0)
    return ClusterSpread(
        str(row.get("clusterid")),
        str(row.get("clustername")),
        int(row.get("before") or 0),
        added,
        max(0, int(row.get("capacity") or 0) - added),
        None if row.get("succeeded") is None else int(row["succeeded"]),
    )
