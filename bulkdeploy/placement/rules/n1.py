"""Room kept for the loss of any one host, where it is asked for: ``placement.remaining_capacity`` looks to it."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="n1",
    text="its VMs would not find room on the other hosts of its cluster, were it lost",
    remedy="add hosts to its cluster, or ask without n1",
    order=210,
)
