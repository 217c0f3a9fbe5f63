"""Fixed DHCP leases for guests in libvirt's own networks.

libvirt's dnsmasq on each host serves networks whose definition contains DHCP. If a NIC has an address in such a
network, its MAC address gets exactly this IP address. The entry of a deleted guest remains until another NIC uses
its IP address. No other device can have its MAC address.
"""

import ipaddress
from typing import Any
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.libvirt.domain import Interface
from bulkdeploy.drivers.libvirt.errors import libvirt

KIND = "network"
"""The interface type of such networks."""


def ensure_lease(connection: Any, interface: Interface) -> None:
    """Add a fixed DHCP lease for a NIC to its network.

    Nothing is done if libvirt provides no DHCP for the subnet of the NIC's address.
    """
    if interface.kind != KIND or interface.source is None or interface.ip_address is None:
        return
    network = connection.networkLookupByName(interface.source)
    place = _place_of(network.XMLDesc(), interface.ip_address)
    if place is None:
        return
    index, entries = place
    wanted = {"mac": interface.mac_address, "ip": interface.ip_address}
    for entry in entries:
        if entry == wanted:
            return
        if entry["mac"] == wanted["mac"] or entry["ip"] == wanted["ip"]:
            _update(network, libvirt.VIR_NETWORK_UPDATE_COMMAND_DELETE, index, entry)
    _update(network, libvirt.VIR_NETWORK_UPDATE_COMMAND_ADD_LAST, index, wanted)


def _place_of(definition: str, address: str) -> tuple[int, list[dict[str, str]]] | None:
    """Return the index of the subnet that contains this address, and its DHCP entries.

    Returns None if no subnet with DHCP contains the address.
    """
    root = Tree.fromstring(definition)  # noqa: S314 - of the daemon that we drive
    for index, subnet in enumerate(root.findall("ip")):
        dhcp, prefix = subnet.find("dhcp"), subnet.get("netmask") or subnet.get("prefix") or "24"
        inside = ipaddress.ip_interface(f"{subnet.get('address')}/{prefix}").network
        if dhcp is not None and ipaddress.ip_address(address) in inside:
            entries = [{name: host.get(name, "") for name in ("mac", "ip")} for host in dhcp.findall("host")]
            return index, entries
    return None


def _update(network: Any, command: int, index: int, entry: dict[str, str]) -> None:
    """Change a DHCP entry in the running network and in its persistent definition, as far as each exists."""
    flags = libvirt.VIR_NETWORK_UPDATE_AFFECT_LIVE if network.isActive() else 0
    flags |= libvirt.VIR_NETWORK_UPDATE_AFFECT_CONFIG if network.isPersistent() else 0
    xml = Tree.tostring(Tree.Element("host", entry), encoding="unicode")
    network.update(command, libvirt.VIR_NETWORK_SECTION_IP_DHCP_HOST, index, xml, flags)
