"""The network configuration for guests with cloud-init (format: cloud-init's manual, networking version 1).

Every renderer of cloud-init must understand the configuration: netplan, eni, sysconfig, network-manager, networkd
and those of the BSDs. Version 1 is the format that all of them share. Version 2 is netplan's. With version 2,
cloud-init 22.4 of Debian 12 fails if an interface that is found by its MAC address has name servers, and releases
before August 2025 understand the route ``default`` for netplan only.

``make test-cloud-init`` tries the configuration with several releases.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.guests import NicSpec

CLOUD_CONFIG = "#cloud-config\n"
"""The first line of user data and vendor data. JSON, which is YAML, may follow."""


def network_config(nics: Sequence[NicSpec], names: Mapping[UUID, str] | None = None) -> dict[str, Any]:
    """Return the network configuration of a guest with these NICs, as cloud-init reads it.

    Args:
        nics: The NICs in order. cloud-init finds each interface by its MAC address and calls it eth0, eth1, ...
        names: The names of the interfaces by the uuids of their NICs, if the hypervisor itself names them, as for
            containers. cloud-init then finds the interfaces by name: netplan before 0.107 compares a MAC address
            with the permanent one, which the interface of a container does not have.
    """
    interfaces = []
    for number, nic in enumerate(nics):
        found_by = {"name": f"eth{number}", "mac_address": nic.mac_address.lower()}
        if names is not None:
            found_by = {"name": names[nic.uuid]}
        mtu = {} if nic.mtu is None else {"mtu": nic.mtu}
        interfaces.append({"type": "physical", **found_by, **mtu, "subnets": [_subnet(nic)]})
    return {"version": 1, "config": interfaces}


def _subnet(nic: NicSpec) -> dict[str, Any]:
    """Return the address, gateway and name servers of a NIC. A NIC without an assigned address uses DHCP."""
    if nic.ip_address is None or nic.netmask is None:
        return {"type": "dhcp4"}
    subnet: dict[str, Any] = {
        "type": "static",
        "address": str(ipaddress.ip_interface(f"{nic.ip_address}/{nic.netmask}")),
    }
    if nic.is_default and nic.gateway is not None:
        subnet["gateway"] = nic.gateway
    if nic.dns:
        subnet["dns_nameservers"] = list(nic.dns)
    return subnet
