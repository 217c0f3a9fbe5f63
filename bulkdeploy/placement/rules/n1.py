"""The rule that enough capacity stays free for the loss of any one host, if a call requests this."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="n1",
    text="if the host failed, the other hosts of its cluster could not run its VMs",
    remedy="add hosts to its cluster, or call without n1",
    order=210,
)
