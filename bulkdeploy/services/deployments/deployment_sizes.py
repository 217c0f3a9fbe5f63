"""The sizes of each VM of a deployment: cores, MHz per core, MiB of memory, and bytes of each volume."""

import re
from collections.abc import Mapping, Sequence
from itertools import count
from operator import attrgetter

from bulkdeploy.domain.deployments.deployment import (
    DeployRequest,
    DiskOfferingFacts,
    DiskSpec,
    NamedDisk,
    OfferingFacts,
    TemplateFacts,
)
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.infrastructure.topology import TemplateKind, VolumeType
from bulkdeploy.domain.units import gib_to_bytes
from bulkdeploy.domain.virtual_machines.sizes import MOST_CORES, MOST_DEVICE_ID, MOST_MHZ, MOST_MIB
from bulkdeploy.store.configuration.configurations import Configuration

WHOLE_NUMBER = re.compile(r"[0-9]{1,10}")


MOST = (
    ("max.guest.cpu.cores", "cpuNumber", "cores"),
    ("max.guest.cpu.speed", "cpuSpeed", "MHz"),
    ("max.guest.memory", "memory", "MiB"),
)
"""Settings that bound each VM, the details that name its sizes, and their units; 0 is no bound."""


def vm_sizes(configuration: Configuration, offering: OfferingFacts, request: DeployRequest) -> tuple[int, int, int]:
    """Return the number of cores, the MHz per core and the memory in MiB of each VM.

    The sizes are those of the offering. The sizes of a custom offering are in ``details``.

    Raises:
        InvalidParameter, InvalidCombination: sizes are missing, out of bounds, above a limit of MOST, or given for
        a fixed offering.
    """
    sizes = _sizes_of(offering, request)
    for size, (setting, detail, unit) in zip(sizes, MOST, strict=True):
        most = configuration.number(setting)
        if 0 < most < size:
            parameter, value = f"details[0].{detail}", request.details.get(detail)
            if value is None:
                value = request.uuids.get("serviceofferingid", {}).get(offering.id, offering.name)
                parameter = "serviceofferingid"
            rule = f"a virtual machine must have at most {most} {unit} ({setting}), not {size}"
            raise InvalidParameter(parameter, value, rule)
    return sizes


def _sizes_of(offering: OfferingFacts, request: DeployRequest) -> tuple[int, int, int]:
    given = {name: request.details[name] for name in ("cpuNumber", "cpuSpeed", "memory") if name in request.details}
    if not offering.is_custom:
        if given:
            raise InvalidCombination(
                ("details", "serviceofferingid"),
                "cpuNumber or cpuSpeed or memory should not be specified for static service offering "
                f"{offering.name}",
            )
        return offering.cpu_number or 0, offering.cpu_mhz or 0, offering.memory_mib or 0
    cpu_number = _custom(
        given,
        "cpuNumber",
        offering.cpu_number,
        offering.min_cpu_number,
        offering.max_cpu_number or MOST_CORES,
        "cores",
    )
    cpu_mhz = _custom(given, "cpuSpeed", offering.cpu_mhz, None, MOST_MHZ, "MHz")
    memory_mib = _custom(
        given, "memory", offering.memory_mib, offering.min_memory_mib, offering.max_memory_mib or MOST_MIB, "MiB"
    )
    return cpu_number, cpu_mhz, memory_mib


def _custom(given: Mapping[str, str], name: str, fixed: int | None, least: int | None, most: int, unit: str) -> int:
    text = given.get(name)
    if fixed is not None:
        if text not in (None, str(fixed)):
            raise InvalidParameter(f"details[0].{name}", text, f"the offering is not custom: it has {fixed} {unit}")
        return fixed
    lower = least or 1
    rule = f"the custom offering needs {name} from {lower} to {most} {unit}"
    if text is None or not (WHOLE_NUMBER.fullmatch(text) and lower <= int(text) <= most):
        raise InvalidParameter(f"details[0].{name}", text, rule)
    return int(text)


def vm_disks(
    configuration: Configuration,
    request: DeployRequest,
    offering: OfferingFacts,
    disk_offerings: Mapping[int, DiskOfferingFacts],
    template: TemplateFacts,
) -> tuple[DiskSpec, ...]:
    """Return the volumes of each VM, the root volume first.

    ``diskofferingid`` is the root volume of a VM from an ISO, and a data volume otherwise. ``disk_offerings`` are
    all offerings that the call names, by internal id.

    Raises:
        InvalidParameter, InvalidCombination: a size is missing, out of bounds or determined by the offering.
    """
    data = list(request.data_disks)
    root_offering = None
    if request.root_disk_offering_id is not None:
        root_offering = disk_offerings[request.root_disk_offering_id]
    if request.disk_offering_id is None:
        if request.disk_size_gib is not None:
            raise InvalidCombination(
                ("size", "diskofferingid"), "size can be given only with a custom disk offering"
            )
    elif template.kind is not TemplateKind.ISO:
        data.insert(0, NamedDisk("diskofferingid", request.disk_offering_id, request.disk_size_gib))
    elif root_offering is None:
        root_offering = disk_offerings[request.disk_offering_id]
    else:
        raise InvalidCombination(
            ("overridediskofferingid", "diskofferingid"),
            "with an ISO, give only one offering for the root disk: diskofferingid or overridediskofferingid",
        )
    return (
        _root_disk(configuration, request, offering, root_offering, template),
        *sorted(
            (
                _data_disk(configuration, disk, disk_offerings[disk.offering_id], device_id)
                for disk, device_id in zip(data, _device_ids(data), strict=True)
            ),
            key=attrgetter("device_id"),
        ),
    )


def _device_ids(disks: Sequence[NamedDisk]) -> list[int]:
    """Return the device number of each data disk: the given number, or else the lowest free number.

    Raises:
        InvalidParameter: a number is out of bounds, or is given twice.
    """
    given: set[int] = set()
    for disk in disks:
        if disk.device_id is None:
            continue
        if not 1 <= disk.device_id <= MOST_DEVICE_ID:
            raise InvalidParameter(disk.parameter, disk.device_id, f"deviceid must be from 1 to {MOST_DEVICE_ID}")
        if disk.device_id in given:
            raise InvalidParameter(disk.parameter, disk.device_id, "each deviceid can be given once")
        given.add(disk.device_id)
    free = (number for number in count(1) if number not in given)
    return [next(free) if disk.device_id is None else disk.device_id for disk in disks]


def _data_disk(
    configuration: Configuration, disk: NamedDisk, offering: DiskOfferingFacts, device_id: int
) -> DiskSpec:
    return DiskSpec(
        device_id=device_id,
        volume_type=VolumeType.DATADISK,
        size_bytes=gib_to_bytes(disk_gib(configuration, disk.size_gib, offering)),
        storage_type=offering.storage_type,
        tags=offering.storage_tags,
        disk_offering_id=offering.id,
        details=offering.details,
    )


def _root_disk(
    configuration: Configuration,
    request: DeployRequest,
    offering: OfferingFacts,
    disk_offering: DiskOfferingFacts | None,
    template: TemplateFacts,
) -> DiskSpec:
    """Return the root disk, which contains the template, defined by the service offering or by a disk offering."""
    is_empty = template.kind is TemplateKind.ISO
    gib = _root_gib(configuration, request, offering, disk_offering, is_empty=is_empty)
    size = template.size_bytes if gib is None else gib_to_bytes(gib)
    if not is_empty and size < template.size_bytes:
        by_offering = "serviceofferingid" if disk_offering is None else "overridediskofferingid"
        raise InvalidParameter(
            "rootdisksize" if request.root_disk_gib else by_offering,
            gib,
            f"rootdisksize override ({gib} GB) is smaller than template size: template {template.name} has"
            f" {template.size_bytes} bytes"
            if request.root_disk_gib
            else f"the root disk must not be smaller than template {template.name}, {template.size_bytes} bytes",
        )
    described = disk_offering or offering
    return DiskSpec(
        volume_type=VolumeType.ROOT,
        size_bytes=size,
        storage_type=described.storage_type,
        tags=described.storage_tags,
        template_id=None if is_empty else template.id,
        disk_offering_id=None if disk_offering is None else disk_offering.id,
        details={} if disk_offering is None else disk_offering.details,
    )


def _root_gib(
    configuration: Configuration,
    request: DeployRequest,
    offering: OfferingFacts,
    disk_offering: DiskOfferingFacts | None,
    *,
    is_empty: bool,
) -> int | None:
    """Return the size of the root disk in GiB, or None if the disk has the size of the template.

    An empty root disk, which is not created from a template, must be given a size.
    """
    if disk_offering is None:
        return request.root_disk_gib or offering.root_disk_gib
    if request.root_disk_gib is not None and not disk_offering.customized:
        return request.root_disk_gib
    requested = request.root_disk_gib or (request.disk_size_gib if is_empty else None)
    if disk_offering.customized and requested is None and not is_empty:
        return None
    return disk_gib(configuration, requested, disk_offering)


def disk_gib(configuration: Configuration, requested_gib: int | None, offering: DiskOfferingFacts) -> int:
    """Return the size of a disk of this offering in GiB. ``requested_gib`` is the value of the parameter ``size``.

    Raises:
        InvalidParameter, InvalidCombination: the size is missing, out of bounds or determined by the offering.
    """
    if not offering.customized:
        if requested_gib is not None:
            raise InvalidCombination(
                ("size", "diskofferingid"), f"disk offering {offering.name} has a fixed size: size cannot be given"
            )
        return offering.disk_gib
    least = configuration.number("custom.diskoffering.size.min")
    most = configuration.number("custom.diskoffering.size.max")
    if requested_gib is None:
        raise InvalidParameter("size", None, "This disk offering requires a custom size specified")
    if not least <= requested_gib <= most:
        raise InvalidParameter("size", requested_gib, f"the size must be from {least} to {most} GiB")
    return requested_gib
