"""Network addresses: parsed in every notation, resolved from names, and classified."""

import ipaddress
import socket
from collections.abc import Iterable
from contextlib import suppress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

TRANSLATED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "::/96",
        "::ffff:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "fec0::/10",
    )
)
"""IPv6 networks whose addresses contain IPv4 addresses or are local to a site; never public."""

DISCARDED = (ipaddress.ip_network("192.88.99.0/24"),)


class UnknownHost(Exception):
    """A host name cannot be resolved."""


def read_address(host: str) -> Address | None:
    """Return an address from any notation that connections accept, such as ``127.1`` or ``0x7f.1``.

    Returns None if the text is a name.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host, at least one.

    Raises:
        UnknownHost: the host name cannot be resolved.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownHost(f"the name of host {host} cannot be resolved") from error
    return list(dict.fromkeys(ipaddress.ip_address(one[4][0]) for one in found))


def addresses_of(hosts: Iterable[str]) -> frozenset[Address]:
    """Return all addresses of these hosts. Hosts whose names cannot be resolved are skipped."""
    found: set[Address] = set()
    for host in hosts:
        with suppress(UnknownHost):
            found.update(resolve(host, 0))
    return frozenset(found)


def is_public(address: Address) -> bool:
    """Return whether an address belongs to the public internet and does not embed another address."""
    if any(address in network for network in (*TRANSLATED, *DISCARDED)):
        return False
    is_special = address.is_multicast or address.is_unspecified or address.is_reserved or address.is_link_local
    return address.is_global and not is_special


def is_own(address: Address) -> bool:
    """Return whether an address belongs to this machine, because the kernel would send from it to itself."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # connecting a datagram socket sends nothing
        try:
            probe.connect((str(address), 9))
        except OSError:
            return False
        return bool(ipaddress.ip_address(probe.getsockname()[0]) == address)
