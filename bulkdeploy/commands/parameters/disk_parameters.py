"""The disks that a deploy call requests by ``rootdisksize``, ``details`` and the lists of data disks."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.domain.deployments.deployment import NamedDisk
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines.sizes import MOST_DEVICE_ID, MOST_DISK_GIB

DATA_DISKS = ("datadiskofferinglist", "datadisksdetails")
ROOT_DISK_SIZE = "rootdisksize"
MOST_IOPS = 2**63 - 1


def data_disks(arguments: Mapping[str, Any]) -> tuple[NamedDisk, ...]:
    """Return the data disks in the lists of a call, in their order.

    Raises:
        InvalidParameter: an entry has no offering, or a field that is not a valid number.
    """
    return tuple(
        NamedDisk(name, _offering_of(name, entry).id, _size_of(name, entry), _device_id_of(name, entry))
        for name in DATA_DISKS
        for entry in arguments.get(name, ())
    )


NOT_POSITIVE = "Root disk size should be a positive number:"
"""The beginning of CloudStack's error text for an invalid ``rootdisksize``, which clients look for."""


def read_root_disk_gib(arguments: Mapping[str, Any]) -> int | None:
    """Return the size of the root disk in GiB: the detail ``rootdisksize``, else the parameter of this name.

    Returns None if neither is given.

    Raises:
        InvalidParameter: the detail is not a whole number of GiB, or is out of bounds.
    """
    detail = merge_details(arguments, "details").get(ROOT_DISK_SIZE)
    if detail is None:
        size: int | None = arguments.get(ROOT_DISK_SIZE)
        return size
    return _number(f"details[0].{ROOT_DISK_SIZE}", f"{NOT_POSITIVE} {ROOT_DISK_SIZE}", detail, 1, MOST_DISK_GIB)


def _offering_of(name: str, entry: Mapping[str, Any]) -> EntityRef:
    if "diskofferingid" not in entry:
        raise InvalidParameter(name, entry.get("size"), "each entry must name a disk offering by diskofferingid")
    ref: EntityRef = entry["diskofferingid"]
    return ref


def _size_of(name: str, entry: Mapping[str, Any]) -> int | None:
    text = entry.get("size")
    return None if text is None else _number(name, "size in GiB", text, 0, MOST_DISK_GIB)


def _device_id_of(name: str, entry: Mapping[str, Any]) -> int | None:
    for iops in ("miniops", "maxiops"):
        if iops in entry:
            _number(name, iops, entry[iops], 0, MOST_IOPS)
    text = entry.get("deviceid")
    return None if text is None else _number(name, "deviceid", text, 1, MOST_DEVICE_ID)


def _number(parameter: str, field: str, text: str, least: int, most: int) -> int:
    """Return the whole number in a field of a map parameter.

    Raises:
        InvalidParameter: the text is not a whole number from ``least`` to ``most``.
    """
    if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and least <= int(text) <= most:
        return int(text)
    raise InvalidParameter(parameter, text[:80], f"{field} must be a whole number from {least} to {most}")


def merge_details(arguments: Mapping[str, Any], name: str) -> Mapping[str, str]:
    """Return all entries of a map parameter as one map, as CloudStack does."""
    return {key: value for part in arguments.get(name, ()) for key, value in part.items()}
