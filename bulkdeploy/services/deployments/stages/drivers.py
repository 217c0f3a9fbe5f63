"""First stage of a deployment: checks that the driver of each hypervisor exists and supports the guests' needs."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.domain.deployments.deployment import DeployRequest, DeploySpec
from bulkdeploy.domain.virtual_machines.device_parameters import is_device_parameter
from bulkdeploy.drivers.abilities.starts import TemplateVariants, UefiFirmware
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.services.abilities import (
    require_ability,
    require_device_parameters,
    require_driver,
    require_driver_of_cloud,
)
from bulkdeploy.services.system import System


def check_drivers(connection: Connection, system: System, specs: Sequence[DeploySpec]) -> None:
    """Check that every hypervisor has a driver that supports all needs of its guests.

    Raises:
        InvalidParameter: a driver is missing, or does not support a need. The error names the parameter with this
            need.
    """
    for spec in specs:
        hypervisor = _hypervisor_of(spec.request)
        require_driver(system.drivers, spec.hypervisor, *hypervisor)
        require_driver_of_cloud(connection, system.drivers, spec.zone.id, spec.hypervisor, *hypervisor)
        if len(spec.disks) > 1:
            data_disk = _data_disk_of(spec.request)
            require_ability(system.drivers, spec.hypervisor, DataVolumes, *data_disk)
        if (variant := spec.request.variant.name) is not None:
            require_ability(system.drivers, spec.hypervisor, TemplateVariants, "templatevariant", variant)
        if spec.uefi is not None:
            require_ability(system.drivers, spec.hypervisor, UefiFirmware, *_firmware_of(spec.request))
        _check_device_parameters(system, spec)


def _check_device_parameters(system: System, spec: DeploySpec) -> None:
    """Check that the driver knows the device parameters of the call and of its offerings.

    ``given_details`` checks which callers may use such parameters.
    """
    request = spec.request
    given = sorted(name for name in request.details if is_device_parameter(name))
    sources = [("details", ", ".join(given), request.details)]
    offering = request.shown("serviceofferingid", spec.offering.id)
    sources.append(("serviceofferingid", offering, spec.offering.details))
    for disk in spec.disks:
        shown = request.shown("diskofferingid", disk.disk_offering_id or 0)
        sources.append(("diskofferingid", shown, disk.details))
    for parameter, value, details in sources:
        require_device_parameters(system.drivers, spec.hypervisor, details, parameter, value)


def _firmware_of(request: DeployRequest) -> tuple[str, str]:
    """Return the parameter of the request that requires UEFI, and its value: ``boottype`` or the template."""
    if request.boot_type is not None:
        return "boottype", request.boot_type
    return "templateid", request.shown("templateid", request.template_id)


def _hypervisor_of(request: DeployRequest) -> tuple[str, str]:
    """Return the parameter of the request that selects the hypervisor, and its value."""
    if request.hypervisor is not None:
        return "hypervisor", request.hypervisor
    return "templateid", request.shown("templateid", request.template_id)


def _data_disk_of(request: DeployRequest) -> tuple[str, str]:
    """Return the parameter of the request that requires a data disk, and its value."""
    parameter, offering_id = "diskofferingid", request.disk_offering_id
    if request.data_disks:
        parameter, offering_id = request.data_disks[0].parameter, request.data_disks[0].offering_id
    return parameter, "" if offering_id is None else request.shown(parameter, offering_id)
