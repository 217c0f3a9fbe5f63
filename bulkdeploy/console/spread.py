"""The spread of VMs over pods and clusters, prepared for a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bulkdeploy.cli.deployments.spread import PodSpread, by_pod, read_spread

MOST_CLUSTERS = 200


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of VMs: pods ordered by name, and the numbers of hosts that cannot be used, by reason."""

    pods: Sequence[PodSpread]
    excluded: Sequence[Mapping[str, Any]]
    left_out: int = 0

    @property
    def largest_cluster(self) -> int:
        """The number of VMs that the largest cluster can hold, at least 1. It sets the length of a plan's bars."""
        return max((one.after + one.left for pod in self.pods for one in pod.clusters), default=1) or 1

    @property
    def fullest_cluster(self) -> int:
        """The number of VMs in the fullest cluster after the deployment, at least 1.

        It sets the length of the longest bar.
        """
        return max((one.after for pod in self.pods for one in pod.clusters), default=1) or 1


def spread_of(row: Mapping[str, Any]) -> Spread:
    """Return the spread of a plan or a deployment.

    At most MOST_CLUSTERS clusters are included; the others are counted.
    """
    clusters = sorted(read_spread(row), key=lambda one: (one.pod, one.name))
    shown = clusters if len(clusters) <= MOST_CLUSTERS else [one for one in clusters if one.added][:MOST_CLUSTERS]
    return Spread(
        by_pod(shown),
        sorted(row.get("excluded") or (), key=lambda one: -int(one["hosts"])),
        len(clusters) - len(shown),
    )
