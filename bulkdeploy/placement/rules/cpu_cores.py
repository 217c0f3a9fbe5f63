"""The rule that a host has at least as many cores as the VM."""

from bulkdeploy.placement.model import Purpose
from bulkdeploy.placement.rule import PLACING, Rule

RULE = Rule(
    reason="cpu_cores",
    text="has fewer cores than the offering",
    remedy="use an offering with fewer cores",
    order=130,
    purposes=PLACING | {Purpose.GROW},
    excludes_hosts=lambda zone, request: zone.hosts.cores < request.cpu_number,
)
