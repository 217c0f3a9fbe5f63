"""The network configuration given to guests with cloud-init (cloud-init's manual, networking config version 2)."""

import ipaddress
from typing import Any

from bulkdeploy.drivers.driver import NicSpec

CLOUD_CONFIG = "#cloud-config\n"
"""The first line of user data and vendor data. JSON, which is YAML, may follow."""


def network_config(nics: tuple[NicSpec, ...]) -> dict[str, Any]:
    """The network of a guest with these nics."""
    return {"version": 2, "ethernets": {f"nic{number}": _ethernet(nic) for number, nic in enumerate(nics)}}


def _ethernet(nic: NicSpec) -> dict[str, Any]:
    """One nic, known by its MAC address; without an address of ours it asks for one."""
    found: dict[str, Any] = {"match": {"macaddress": nic.mac_address.lower()}}
    if nic.mtu is not None:
        found["mtu"] = nic.mtu
    if nic.ip_address is None or nic.netmask is None:
        return {**found, "dhcp4": True}
    found["addresses"] = [str(ipaddress.ip_interface(f"{nic.ip_address}/{nic.netmask}"))]
    if nic.is_default and nic.gateway is not None:
        found["routes"] = [{"to": "default", "via": nic.gateway}]
    if nic.dns:
        found["nameservers"] = {"addresses": list(nic.dns)}
    return found
