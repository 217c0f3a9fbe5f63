"""The rule that enough capacity stays free for the loss of any one host, if a call requests this."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="n1",
    text="its VMs would not find room on the other hosts of its cluster, were it lost",
    remedy="add hosts to its cluster, or ask without n1",
    order=210,
)
