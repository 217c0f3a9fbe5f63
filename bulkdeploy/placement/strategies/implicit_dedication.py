"""``ImplicitDedicationPlanner`` in strict mode: only hosts on which no other account has VMs.

Clusters are then filled as by first fit, so that the owner occupies few hosts.
"""

from bulkdeploy.placement.rule import Rule
from bulkdeploy.placement.strategy import Strategy, least_used_first

OCCUPIED_BY_OTHERS = Rule(
    reason="occupied_by_others",
    text="another account has VMs there",
    remedy="add hosts, or use an offering without ImplicitDedicationPlanner",
    order=110,
    # VMs that move in or out count, too.
    excludes_hosts=lambda zone, _: zone.hosts.vms_used > zone.hosts.owner_vms,
)

STRATEGY = Strategy(
    planners=("ImplicitDedicationPlanner",),
    description="only hosts without VMs of other accounts; clusters with the least share of CPU in use come first",
    order=40,
    filling=least_used_first,
    rules=(OCCUPIED_BY_OTHERS,),
    needs_owner_vms=True,
)
