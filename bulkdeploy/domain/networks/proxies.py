"""The address of the client behind trusted proxies.

Source: CloudStack's settings ``proxy.header.verify``, ``proxy.header.names`` and ``proxy.cidr``. CloudStack uses
the first address of a header, which the client may have written itself. Here the last address that does not belong
to a trusted proxy is used, because each proxy appends the address that it sees.
"""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from bulkdeploy.domain.networks.source_networks import is_within

VERIFY, NAMES, NETWORKS = "proxy.header.verify", "proxy.header.names", "proxy.cidr"


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The trusted proxies, and the headers in which they name clients.

    Attributes:
        names: the names of headers, in the order in which they are searched.
        networks: the networks of trusted proxies, as CIDRs separated by commas; blank if no proxy is trusted.
    """

    names: tuple[str, ...] = ()
    networks: str = ""

    @classmethod
    def of(cls, text: Callable[[str], str], fixed: str = "") -> "ProxySettings":
        """Return the settings of proxies from the setting values that ``text`` returns by name.

        ``fixed`` lists networks of proxies that are trusted in any case, as CIDRs separated by commas.
        """
        configured = text(NETWORKS).strip() if text(VERIFY) == "true" else ""
        networks = ",".join(part for part in (fixed, configured) if part)
        names = (name.strip() for name in text(NAMES).split(","))
        return cls(tuple(name for name in names if name), networks) if networks else cls()

    def trusts(self, address: str) -> bool:
        """Return whether this address belongs to a trusted proxy."""
        return bool(self.networks) and is_within(address, self.networks)

    def client(self, peer: str, header: Callable[[str], str | None]) -> str:
        """Return the address of the client of a connection.

        ``peer`` is the other end of the connection, which may be a trusted proxy. ``header`` returns the value of a
        header by name, or None.
        """
        if not self.trusts(peer):
            return peer
        reported = (self._recorded(header(name) or "") for name in self.names)
        return next((address for address in reported if address is not None), peer)

    def _recorded(self, text: str) -> str | None:
        """Return the client address in a header, or None if the header contains no address.

        The header is read from its end. A part that is not an address ends the search.
        """
        found: str | None = None
        for part in reversed(text.split(",")):
            address = _address(part.strip())
            if address is None:
                break
            found = address
            if not self.trusts(address):
                break
        return found


def _address(text: str) -> str | None:
    """Return the IP address in the value of a header, or None if the value is no address.

    The address may have a port: ``192.0.2.1:4711`` or ``[2001:db8::1]:4711``.
    """
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        return str(ip_address(bare))
    except ValueError:
        return None
