"""Parameters of disks and NICs in details of offerings and VMs, such as ``disk.cache`` and ``nic.mode``."""

from collections.abc import Mapping
from enum import StrEnum

VARIANT = "templatevariant"
"""The detail of a VM that says which variant of its template it is made from."""

VARIANTS = "variants"
"""The detail of a template that declares its variants, separated by commas."""


class Device(StrEnum):
    """The kinds of devices that have parameters."""

    DISK = "disk"
    NIC = "nic"


RATES = frozenset(
    f"{direction}_{unit}_sec{bound}"
    for direction in ("read", "write")
    for unit in ("bytes", "iops")
    for bound in ("", "_max", "_max_length")
)
"""Parameters of disks that bound bytes and operations per second, by the names that libvirt gives them."""

CACHE = "cache"
"""The parameter of disks that is their cache mode."""


def parameters_of(device: Device, details: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of disks, or of NICs, in details: values by the parameters' names."""
    prefix = f"{device}."
    return {name.removeprefix(prefix): value for name, value in details.items() if name.startswith(prefix)}


def is_device_parameter(name: str) -> bool:
    """Return whether a detail is a parameter of disks or nics."""
    return name.startswith(tuple(f"{device}." for device in Device))
