"""Networks that calls may come from, as a text: CIDRs separated by commas."""

from ipaddress import ip_address, ip_network


def are_networks(text: str) -> bool:
    """Whether a text is a list of networks, with at least one."""
    try:
        return bool([ip_network(part.strip(), strict=False) for part in text.split(",")])
    except ValueError:
        return False


def is_within(address: str, networks: str) -> bool:
    """Whether an IP address is in one of the networks; what cannot be read as an address is in none."""
    try:
        source = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    source = getattr(source, "ipv4_mapped", None) or source
    return any(source in ip_network(part.strip(), strict=False) for part in networks.split(","))
