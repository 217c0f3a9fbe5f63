"""Lists of networks (CIDRs separated by commas), and the grouping of addresses by client."""

from ipaddress import IPv6Address, ip_address, ip_network

IPV6_PREFIX = 64
"""One customer's own network, so all its addresses count as one."""


def are_networks(text: str) -> bool:
    """Return whether a text is a list of at least one network in CIDR notation, separated by commas."""
    try:
        return bool([ip_network(part.strip(), strict=False) for part in text.split(",")])
    except ValueError:
        return False


def is_within(address: str, networks: str) -> bool:
    """Return whether an IP address is in one of the networks. A text that is not an address is in no network."""
    try:
        source = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    source = getattr(source, "ipv4_mapped", None) or source
    return any(source in ip_network(part.strip(), strict=False) for part in networks.split(","))


def source_of(address: str) -> str:
    """Return the client to which an address belongs: an IPv4 address, or the IPv6 network of an IPv6 address.

    A text that is no address is returned unchanged.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, IPV6_PREFIX), strict=False))
