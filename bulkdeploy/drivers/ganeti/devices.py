"""Disks, NICs and operating systems of instances in the format of Ganeti's requests.

A parameter of the guest's disk or NIC takes precedence over the driver's option. Without either, the cluster's own
default applies. Source: Ganeti's doc/rapi.rst, version 3.0, ``/2/instances``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlsplit

from bulkdeploy.domain.units import MIB
from bulkdeploy.domain.virtual_machines.device_parameters import Device
from bulkdeploy.drivers.ganeti.options import DiskParameter, GanetiOptions
from bulkdeploy.drivers.guests import GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress

ROUTED = "routed"
MODES = {"ovs": "openvswitch"}
"""Ganeti's names of NIC modes, by other names of these modes."""

DEVICE_PARAMETERS: Mapping[Device, frozenset[str]] = MappingProxyType(
    {Device.DISK: frozenset(get_args(DiskParameter)), Device.NIC: frozenset({"mode", "link", "vlan", "network"})}
)
"""The parameters of disks and NICs that calls may set. The service sets sizes, names and addresses itself."""


class NoRoute(Exception):
    """Raised if the mode of a NIC is routed and the NIC has no address."""

    def __init__(self) -> None:
        super().__init__("the mode of a nic is routed, which requires an address")


def node_of(host: HostAddress) -> str:
    """Return the name of the Ganeti node that a host is, from the host's url or else its name.

    Names in urls are returned in lower case, as Ganeti writes them.
    """
    return (urlsplit(host.url).hostname if host.url else None) or host.name


def mib(volume: VolumeSpec) -> int:
    """Return a volume's size in MiB, rounded up."""
    return max(-(-volume.size_bytes // MIB), 1)


def disks_of(guest: GuestSpec, options: GanetiOptions) -> list[dict[str, Any]]:
    """Return the disks of an instance for Ganeti's request. Each disk has the uuid of its volume as its name."""
    if options.disk_template == "diskless":
        return []
    defaults: dict[str, Any] = dict(options.disk_parameters.items())
    return [
        {**defaults, **volume.parameters, "size": mib(volume), "name": str(volume.uuid)} for volume in guest.volumes
    ]


def nics_of(guest: GuestSpec, options: GanetiOptions) -> list[dict[str, Any]]:
    """Return the NICs of an instance for Ganeti's request.

    Each NIC has the uuid of the guest's NIC as its name.

    Raises:
        NoRoute: the mode of a NIC is routed and the NIC has no address.
    """
    return [_nic(nic, options) for nic in guest.nics]


def _nic(nic: NicSpec, options: GanetiOptions) -> dict[str, Any]:
    defaults = {"mode": options.nic_mode, "link": options.nic_link}
    chosen = {name: value for name, value in {**defaults, **nic.parameters}.items() if value is not None}
    if "network" in nic.parameters:  # the network determines mode and link
        chosen = {"network": nic.parameters["network"]}
    if "mode" in chosen:
        chosen["mode"] = MODES.get(chosen["mode"], chosen["mode"])
    address = {}
    if chosen.get("mode") == ROUTED:
        if nic.ip_address is None:
            raise NoRoute
        address = {"ip": nic.ip_address}
    return {"mac": nic.mac_address, "name": str(nic.uuid), **chosen, **address}


def operating_system(wanted: str, variant: str | None) -> str:
    """Return Ganeti's name of an OS with its variant, such as ``debootstrap+lenny``.

    If ``variant`` is None, the variant in ``wanted`` is used, if there is one.
    """
    return wanted if variant is None else f"{wanted.partition('+')[0]}+{variant}"
