"""Security groups as XML of libvirt's network filters, one filter per guest."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from uuid import UUID
from xml.etree import ElementTree as Tree

from bulkdeploy.domain.networks.security_group_rules import ANY_ICMP, Direction, Protocol, Rule, Traffic

GUARD = "clean-traffic"
"""libvirt's own filter against spoofing. It reads the parameter IP of the NIC."""

FIRST, ALLOWED, LAST = "100", "500", "900"
"""The priorities of rules for the traffic of every guest, for allowed traffic, and for dropping other traffic."""

WAYS = {Direction.INGRESS: "in", Direction.EGRESS: "out"}
NEIGHBOURS = range(133, 138)
"""The ICMPv6 types that IPv6 needs for finding neighbours and routers (RFC 4861)."""

SERVER, CLIENT = "67", "68"
"""The ports of DHCP servers and clients."""


def filter_name(guest_uuid: UUID) -> str:
    """Return the name of a guest's network filter."""
    return f"bulkdeploy-{guest_uuid}"


def write_filter(guest_uuid: UUID, rules: Iterable[Rule], *, guarded: bool) -> str:
    """Return the XML of a guest's network filter.

    With ``guarded``, the NICs of the guest can send only with their own MAC and IPv4 address. libvirt tracks
    connections: a reply to an accepted packet passes in the other direction without a rule.
    """
    root = Tree.Element("filter", name=filter_name(guest_uuid), chain="root")
    Tree.SubElement(root, "uuid").text = str(guest_uuid)
    if guarded:
        Tree.SubElement(root, "filterref", filter=GUARD)
    for way, source, destination in (("out", CLIENT, SERVER), ("in", SERVER, CLIENT)):
        _rule(root, "accept", way, FIRST, "udp", srcportstart=source, dstportstart=destination)
    for number in NEIGHBOURS:
        _rule(root, "accept", "inout", FIRST, "icmpv6", type=str(number))
    ordered = sorted(rules, key=str)
    for rule in ordered:
        _write_rule(root, rule)
    sends_all = all(rule.direction is Direction.INGRESS for rule in ordered)
    for protocol in ("all", "all-ipv6"):
        _rule(root, "accept" if sends_all else "drop", "out", LAST, protocol)
        _rule(root, "drop", "in", LAST, protocol)
    return Tree.tostring(root, encoding="unicode")


def _rule(root: Tree.Element, action: str, way: str, priority: str, protocol: str, **matches: str) -> None:
    element = Tree.SubElement(root, "rule", action=action, direction=way, priority=priority)
    Tree.SubElement(element, protocol, matches)


def _write_rule(root: Tree.Element, rule: Rule) -> None:
    network = ip_network(rule.cidr, strict=False)
    matches = _other_end(rule.direction, network) | _traffic(rule.traffic)
    _rule(root, "accept", WAYS[rule.direction], ALLOWED, _protocol(rule.traffic.protocol, network), **matches)


def _other_end(direction: Direction, network: IPv4Network | IPv6Network) -> dict[str, str]:
    end = "src" if direction is Direction.INGRESS else "dst"
    return {f"{end}ipaddr": str(network.network_address), f"{end}ipmask": str(network.prefixlen)}


def _protocol(protocol: Protocol, network: IPv4Network | IPv6Network) -> str:
    if network.version == 4:
        return protocol.value
    return "icmpv6" if protocol is Protocol.ICMP else f"{protocol.value}-ipv6"


def _traffic(traffic: Traffic) -> dict[str, str]:
    numbers = {
        "dstportstart": traffic.start_port,
        "dstportend": traffic.end_port,
        "type": None if traffic.icmp_type == ANY_ICMP else traffic.icmp_type,
        "code": None if ANY_ICMP in (traffic.icmp_type, traffic.icmp_code) else traffic.icmp_code,
    }
    return {name: str(number) for name, number in numbers.items() if number is not None}


def is_guarded(xml: str) -> bool:
    """Return whether a network filter prevents a guest from spoofing addresses."""
    return Tree.fromstring(xml).find(f"filterref[@filter='{GUARD}']") is not None  # noqa: S314 - of the daemon
