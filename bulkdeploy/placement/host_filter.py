"""The rule that excluded each host, and the number of hosts that each rule excluded: computed on first use."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from bulkdeploy.placement.model import Flags, Ints
from bulkdeploy.placement.rule import Rule


class HostFilter:
    """The hosts that each rule excluded, in the order in which the rules were applied.

    Args:
        rules: all rules that may exclude hosts.
        cluster_of_host: the position of each host's cluster. Hosts are identified by their positions, too.
    """

    def __init__(self, rules: Sequence[Rule], cluster_of_host: Ints) -> None:
        self._rules = rules
        self._cluster = cluster_of_host
        self._excluded: list[tuple[Rule, Flags, Ints | None]] = []

    def exclude(self, hosts: Flags, rule: Rule) -> None:
        """Exclude the marked hosts, unless another rule did so before."""
        self._excluded.append((rule, hosts, None))

    def exclude_at(self, hosts: Ints, rule: Rule) -> None:
        """Exclude the hosts at these positions, unless another rule did so before."""
        marked = np.zeros(len(self._cluster), dtype=bool)
        marked[hosts] = True
        self.exclude(marked, rule)

    def exclude_clusters(self, clusters: Flags, rule: Rule) -> None:
        """Exclude all hosts of the marked clusters."""
        self._excluded.append((rule, clusters, self._cluster))

    @cached_property
    def _excluded_by(self) -> Ints:
        """The number of the first rule that excluded each host, or 0 if no rule did."""
        numbers = {rule.reason: number for number, rule in enumerate(self._rules, start=1)}
        excluded_by = np.zeros(len(self._cluster), dtype=np.int64)
        for rule, marked, of_host in reversed(self._excluded):
            np.putmask(excluded_by, marked if of_host is None else marked[of_host], numbers[rule.reason])
        return excluded_by

    def reason(self, host: int) -> str | None:
        """Return the reason of the rule that excluded a host, or None if the host is a candidate."""
        number = int(self._excluded_by[host])
        return None if number == 0 else self._rules[number - 1].reason

    def excluded_by(self, *rules: Rule) -> Flags:
        """Return which hosts were excluded by one of these rules."""
        return np.isin(self._excluded_by, [at for at, rule in enumerate(self._rules, start=1) if rule in rules])

    def excluded(self) -> dict[str, int]:
        """Return how many hosts were excluded by each reason, in the order of the rules.

        Reasons that excluded no host are omitted.
        """
        counts = np.bincount(self._excluded_by, minlength=len(self._rules) + 1).tolist()
        return {rule.reason: count for rule, count in zip(self._rules, counts[1:], strict=True) if count}
