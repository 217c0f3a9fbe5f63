"""Which hosts are still candidates, and which rule removed each of the others."""

import numpy as np

from bulkdeploy.placement.model import Flags, Ints, Reason

REASONS = tuple(Reason)
NUMBERS = {reason: number for number, reason in enumerate(REASONS, start=1)}


class Sieve:
    """Remembers for every host the first rule that removed it.

    Hosts are named by their position in the snapshot's columns.
    """

    def __init__(self, hosts: int, cluster_of_host: Ints) -> None:
        self._removed_by = np.zeros(hosts, dtype=np.int8)
        self._cluster = cluster_of_host

    def drop(self, hosts: Flags, reason: Reason) -> None:
        """Remove the marked hosts, unless another rule did so before."""
        np.putmask(self._removed_by, hosts & (self._removed_by == 0), NUMBERS[reason])

    def drop_at(self, hosts: Ints, reason: Reason) -> None:
        """Remove the hosts at these positions, unless another rule did so before."""
        marked = np.zeros(len(self._removed_by), dtype=bool)
        marked[hosts] = True
        self.drop(marked, reason)

    def drop_clusters(self, clusters: Flags, reason: Reason) -> None:
        """Remove all hosts of the marked clusters."""
        if clusters.any():
            self.drop(clusters[self._cluster], reason)

    def left(self) -> Ints:
        """The hosts that no rule removed."""
        return np.flatnonzero(self._removed_by == 0)

    def excluded(self) -> dict[Reason, int]:
        """How many hosts each rule removed; rules that removed none are absent."""
        counts = np.bincount(self._removed_by, minlength=len(REASONS) + 1).tolist()
        return {reason: counts[NUMBERS[reason]] for reason in REASONS if counts[NUMBERS[reason]]}
