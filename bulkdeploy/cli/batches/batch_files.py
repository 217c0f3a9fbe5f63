"""Files of ``batch-create``: a list of VMs in JSON or YAML, with this API's field names or Ganeti's."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from bulkdeploy.cli.failures import UsageError

LIST = "virtualmachines"
STANDARD_INPUT = "-"
MIB_IN_GIB = 1024
UNITS = {"m": 1, "g": MIB_IN_GIB, "t": MIB_IN_GIB**2}
GANETI_ONLY = frozenset({"instance_name", "os_type", "beparams", "disks", "nics", "pnode"})
"""Fields by which an entry is known to be Ganeti's."""

WITHOUT_EFFECT = frozenset(
    {"mode", "name_check", "ip_check", "conflicts_check", "wait_for_sync", "no_install", "iallocator"}
    | {"opportunistic_locking", "disk_template", "file_driver", "osparams", "hvparams", "tags", "snode"}
)
"""Ganeti's fields that nothing here corresponds to: said, and left out."""

DISK_PARAMETERS = ("vg", "metavg", "access", "mode", "provider")
NIC_PARAMETERS = ("mode", "link", "vlan")
"""Ganeti's parameters of a disk or nic that are details here (``disk.vg``, ``nic.link``)."""

NIC_ADDRESSES = ("network", "ip", "mac")
CHOSEN_BY_GANETI = (None, "auto", "generate", "pool")
"""Values of an address that Ganeti would choose."""

HYPERVISORS = {"kvm": "KVM", "xen-pvm": "XenServer", "xen-hvm": "XenServer", "lxc": "LXC", "fake": "Simulator"}


@dataclass(slots=True)
class BatchFile:
    """The contents of a batch file.

    ``shared`` are the parameters outside the list, ``entries`` the list of VMs, and ``remarks`` the numbers of
    entries by ignored field.
    """

    shared: dict[str, Any]
    entries: list[dict[str, Any]]
    remarks: dict[str, list[int]] = field(default_factory=dict)


def read_batch(path: str) -> BatchFile:
    """Return the list of VMs in a file. The path ``-`` is standard input.

    Raises:
        UsageError: the file cannot be read, or a field of an entry is wrong. The error names the entry and field.
    """
    try:
        content = (
            sys.stdin.read() if path == STANDARD_INPUT else Path(path).expanduser().read_text(encoding="utf-8")
        )
        read = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    shared: dict[str, Any] = {}
    if isinstance(read, dict):
        shared = dict(read)
        read = shared.pop(LIST, shared.pop("instances", None))
    if not isinstance(read, list) or not read:
        raise UsageError(f"{path} must be a list of VMs, or an object with such a list as {LIST!r}")
    batch = BatchFile(shared, [])
    for number, entry in enumerate(read):
        if not isinstance(entry, dict) or not all(isinstance(name, str) for name in entry):
            raise UsageError(f"{_entry(number)} must be an object of names and values, not {entry!r:.80}")
        batch.entries.append(_mapped(batch, number, entry) if entry.keys() & GANETI_ONLY else dict(entry))
    return batch


def _entry(number: int, name: str = "") -> str:
    return f"{LIST}[{number}]" + (f".{name}" if name else "")


def _mapped(batch: BatchFile, number: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry in Ganeti's format with the field names of this API.

    Ignored fields are added to the remarks.
    """
    mapped: dict[str, Any] = {}
    for name, value in entry.items():
        if name in WITHOUT_EFFECT:
            batch.remarks.setdefault(name, []).append(number)
        elif name == "start":
            _share_start(batch, number, value)
        else:
            for ours, inner in _fields_of(number, name, value):
                mapped[ours] = {**mapped[ours], **inner} if ours == "details" and ours in mapped else inner
    return mapped


def _fields_of(number: int, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    match name:
        case "instance_name" | "name":
            yield "name", str(value).partition(".")[0]
        case "os_type" | "os":
            yield "template", value
        case "pnode":
            yield "hostid", value
        case "hypervisor":
            if value not in HYPERVISORS:
                raise UsageError(f"{_entry(number, name)}: {value!r} is not one of {', '.join(HYPERVISORS)}")
            yield "hypervisor", HYPERVISORS[value]
        case "beparams":
            yield "details", _sizes(number, value)
        case "disks":
            yield from _disks(number, value)
        case "nics":
            yield from _nics(number, value)
        case _:
            yield name, value


def _sizes(number: int, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UsageError(f"{_entry(number, 'beparams')} must be an object, not {given!r:.80}")
    details: dict[str, Any] = {}
    for name, value in given.items():
        if name == "vcpus":
            details["cpuNumber"] = value
        elif name in ("maxmem", "memory"):
            details["memory"] = _mib(number, f"beparams.{name}", value)
        elif name not in ("minmem", "auto_balance", "always_failover", "spindle_use"):
            raise UsageError(f"{_entry(number, f'beparams.{name}')} has no counterpart in bulkdeploy")
    return details


def _disks(number: int, given: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters for disks: the first is the root disk, others are data disks of the call's offering."""
    sizes = []
    for at, disk in enumerate(given if isinstance(given, list) else [given]):
        if not isinstance(disk, dict) or "size" not in disk:
            raise UsageError(f"{_entry(number, f'disks[{at}]')} must be an object with size")
        sizes.append(ceil(_mib(number, f"disks[{at}].size", disk["size"]) / MIB_IN_GIB))
        _reject_unknown(number, f"disks[{at}]", disk, {"size", "name", *DISK_PARAMETERS})
    yield from _device_details(number, "disk", given, DISK_PARAMETERS)
    if sizes:
        yield "rootdisksize", sizes[0]
    if len(sizes) > 1:
        yield "datadisks", sizes[1:]


def _nics(number: int, given: Any) -> Iterator[tuple[str, Any]]:
    nics = []
    for at, nic in enumerate(given if isinstance(given, list) else [given]):
        if not isinstance(nic, dict):
            raise UsageError(f"{_entry(number, f'nics[{at}]')} must be an object")
        _reject_unknown(number, f"nics[{at}]", nic, {*NIC_ADDRESSES, "name", *NIC_PARAMETERS})
        given_values = {name: nic[name] for name in NIC_ADDRESSES if name in nic}
        nics.append({name: value for name, value in given_values.items() if value not in CHOSEN_BY_GANETI})
    yield from _device_details(number, "nic", given, NIC_PARAMETERS)
    if len(nics) == 1 and "network" not in nics[0]:
        names = {"ip": "ipaddress", "mac": "macaddress"}
        yield from ((names[name], value) for name, value in nics[0].items())
    elif nics:
        yield (
            "iptonetworklist",
            [{("networkid" if name == "network" else name): nic[name] for name in nic} for nic in nics],
        )


def _reject_unknown(number: int, device: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise UsageError for the first field of a disk or NIC that has no equivalent in this API."""
    for name in sorted(given.keys() - set(known)):
        raise UsageError(f"{_entry(number, f'{device}.{name}')} has no counterpart in bulkdeploy")


def _device_details(number: int, kind: str, given: Any, parameters: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of an entry's disks or NICs as details of the VM.

    A detail applies to all disks or NICs of the VM, so all of them must have the same value.

    Raises:
        UsageError: a parameter is not the same for all disks or nics of the entry.
    """
    devices = given if isinstance(given, list) else [given]
    for name in parameters:
        values = [device.get(name) for device in devices]
        for at, value in enumerate(values):
            if value != values[0]:
                where = _entry(number, f"{kind}s[{at}].{name}")
                raise UsageError(f"{where} must be {values[0]!r:.80}, the same for all {kind}s, not {value!r:.80}")
        if values and values[0] is not None:
            yield "details", {f"{kind}.{name}": values[0]}


def _mib(number: int, name: str, value: Any) -> int:
    """Return a size in Ganeti's format in MiB: a number of MiB, or a number with the suffix m, g or t."""
    text = str(value).strip().lower()
    unit = UNITS.get(text[-1:], 1)
    digits = text[:-1] if text[-1:] in UNITS else text
    if not (digits.isascii() and digits.isdecimal() and int(digits)):
        raise UsageError(
            f"{_entry(number, name)} must be a size in MiB, such as 512, 512m or 4g, not {value!r:.80}"
        )
    return int(digits) * unit


def _share_start(batch: BatchFile, number: int, value: Any) -> None:
    """Set whether the VMs are started as a common parameter.

    Raises:
        UsageError: the entries differ in this setting.
    """
    if batch.shared.setdefault("startvm", bool(value)) != bool(value):
        raise UsageError(f"{_entry(number, 'start')} must be the same for all VMs of a batch")
