"""The rule that a host has all host tags of the offering and the template."""

from bulkdeploy.placement.model import Flags, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.placement.rule import PLACING, Rule
from bulkdeploy.placement.tags import carriers


def untagged(snapshot: ZoneSnapshot, request: PlacementRequest) -> Flags | None:
    """Return which hosts lack one of the request's tags, or None if the request has no tags."""
    if not request.host_tags:
        return None
    return ~carriers(snapshot.tag_sets, request.host_tags)[snapshot.hosts.tag_set]


RULE = Rule(
    reason="host_tags",
    text="lacks a host tag of the offering or the template",
    remedy="tag more hosts, or use an offering without tags",
    order=120,
    purposes=PLACING | {Purpose.GROW},
    lasting=True,
    excludes_hosts=untagged,
)
