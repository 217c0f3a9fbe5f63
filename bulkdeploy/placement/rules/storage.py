"""The rule that disks fit into pools of the host, its cluster or the zone (cloudstack-protocol.md 6.3).

The planner applies the rule (``capacity``), because the pools of the disks determine how many VMs fit.
"""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="storage",
    text="no storage pool of the host has room for the disks",
    remedy="add or free primary storage, or use an offering without storage tags",
    order=190,
)
