"""The networks of guests that the sweeper may connect to for health checks."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Self

from bulkdeploy.security.network_addresses import TRANSLATED, Address, addresses_of, is_own


@dataclass(frozen=True, slots=True)
class GuestNetworks:
    """The networks in the setting ``guest_health_networks``.

    Health checks connect to no other network.

    Users choose the addresses of their guests, so an address does not prove that it belongs to a guest.

    Attributes:
        networks: the networks.
        own_hosts: names or addresses of the service's own servers, such as its database.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    own_hosts: tuple[str, ...] = ()

    @classmethod
    def read(cls, networks: Sequence[str], own_hosts: Sequence[str] = ()) -> Self:
        """Return the object for networks in CIDR notation.

        Raises:
            ValueError: a text is not a network.
        """
        return cls(tuple(ip_network(network) for network in networks), tuple(own_hosts))

    def contains(self, address: str) -> bool:
        """Return whether an address is in one of the networks and can be the address of a guest.

        Returns False for loopback, link-local, multicast, reserved and unspecified addresses.
        """
        parsed = ip_address(address)
        return _is_of_a_machine(parsed) and any(parsed in network for network in self.networks)

    def connectable(self, addresses: Collection[str]) -> frozenset[str]:
        """Return the contained addresses that belong neither to this machine nor to the service's own servers."""
        own = addresses_of(self.own_hosts)
        contained = {address: ip_address(address) for address in addresses if self.contains(address)}
        return frozenset(
            address for address, parsed in contained.items() if parsed not in own and not is_own(parsed)
        )


def _is_of_a_machine(address: Address) -> bool:
    if any(address in network for network in TRANSLATED):
        return False
    is_special = address.is_loopback or address.is_multicast or address.is_unspecified or address.is_reserved
    return not (is_special or address.is_link_local)
