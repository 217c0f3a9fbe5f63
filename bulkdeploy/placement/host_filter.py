"""Which hosts are still candidates, and which rule excluded each of the others."""

from collections.abc import Sequence

import numpy as np

from bulkdeploy.placement.model import Flags, Ints
from bulkdeploy.placement.rule import Rule


class HostFilter:
    """Remembers for every host the first rule that excluded it.

    Args:
        rules: all that may exclude hosts.
        cluster_of_host: the position of each host's cluster; hosts are named by their position, too.
    """

    def __init__(self, rules: Sequence[Rule], cluster_of_host: Ints) -> None:
        self._rules = rules
        self._number = {rule.reason: number for number, rule in enumerate(rules, start=1)}
        self._excluded_by = np.zeros(len(cluster_of_host), dtype=np.int16)
        self._cluster = cluster_of_host

    def exclude(self, hosts: Flags, rule: Rule) -> None:
        """Exclude the marked hosts, unless another rule did so before."""
        np.putmask(self._excluded_by, hosts & (self._excluded_by == 0), self._number[rule.reason])

    def exclude_at(self, hosts: Ints, rule: Rule) -> None:
        """Exclude the hosts at these positions, unless another rule did so before."""
        marked = np.zeros(len(self._excluded_by), dtype=bool)
        marked[hosts] = True
        self.exclude(marked, rule)

    def exclude_clusters(self, clusters: Flags, rule: Rule) -> None:
        """Exclude all hosts of the marked clusters."""
        if clusters.any():
            self.exclude(clusters[self._cluster], rule)

    def candidates(self) -> Ints:
        """The hosts that no rule excluded."""
        return np.flatnonzero(self._excluded_by == 0)

    def reason(self, host: int) -> str | None:
        """The reason of the rule that excluded a host; None: it is a candidate."""
        number = int(self._excluded_by[host])
        return None if number == 0 else self._rules[number - 1].reason

    def excluded_by(self, *rules: Rule) -> Flags:
        """The hosts that one of these rules excluded."""
        return np.isin(self._excluded_by, [self._number[rule.reason] for rule in rules if rule in self._rules])

    def excluded(self) -> dict[str, int]:
        """How many hosts were excluded by each reason, in the rules' order; reasons without any are absent."""
        counts = np.bincount(self._excluded_by, minlength=len(self._rules) + 1).tolist()
        return {rule.reason: count for rule, count in zip(self._rules, counts[1:], strict=True) if count}
