"""The rule that limits the number of guests on a host to the maximum of its hypervisor."""

from bulkdeploy.placement.rule import Rule

RULE = Rule(
    reason="guest_limit",
    text="has as many guests as its hypervisor allows",
    remedy="add hosts",
    order=170,
    host_capacity=lambda zone, _: zone.hosts.vms_limit - zone.hosts.vms_used,
)
