"""Checks of the abilities of hypervisors.

A call that needs a missing ability is rejected before anything is written.
"""

from collections.abc import Mapping

from sqlalchemy import Connection

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines.device_parameters import Device, parameters_of
from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.registry import ConfiguredDriver, Drivers, NoDriverFor
from bulkdeploy.store.rows.learnt_entities import has_learnt_clusters

CLOUDSTACK = "cloudstack"
"""The driver for hosts that a CloudStack has."""


def require_driver(drivers: Drivers, hypervisor: str, parameter: str, value: object) -> ConfiguredDriver:
    """Return the driver that the settings assign to a hypervisor.

    ``parameter`` and ``value`` are the parameter of the request that names the hypervisor; errors name them.

    Raises:
        InvalidParameter: no driver is assigned to it. The error names the missing setting.
    """
    try:
        return drivers.configured_for(hypervisor)
    except NoDriverFor as error:
        raise InvalidParameter(parameter, value, str(error)) from error


def require_driver_of_cloud(
    connection: Connection, drivers: Drivers, zone_id: int, hypervisor: str, parameter: str, value: object
) -> None:
    """Check that VMs for clusters that were imported from a CloudStack are deployed through that CloudStack.

    Raises:
        InvalidParameter: the settings name another driver; the error contains the setting to add.
    """
    driver = drivers.find(hypervisor)
    if (driver is None or driver.name != CLOUDSTACK) and has_learnt_clusters(connection, zone_id, hypervisor):
        raise InvalidParameter(
            parameter,
            value,
            f"the zone's clusters of hypervisor {hypervisor} were imported from a CloudStack, but the settings name"
            f" {'no driver' if driver is None else f'the driver {driver.name!r}'} for it: add"
            f' {hypervisor} = "{CLOUDSTACK}" to [drivers], and the url, apikey and secretkey of that CloudStack to'
            f" [driver.{CLOUDSTACK}], in the configuration of all programs",
        )


def has_ability(drivers: Drivers, hypervisor: str, ability: type[Ability]) -> bool:
    """Return whether there is a driver for the hypervisor that declares an ability."""
    try:
        return ability in drivers.configured_for(hypervisor).abilities
    except NoDriverFor:
        return False


def require_ability(
    drivers: Drivers, hypervisor: str, ability: type[Ability], parameter: str, value: object
) -> None:
    """Raise InvalidParameter unless the driver of the hypervisor provides an ability.

    ``parameter`` and ``value`` are the parameter of the request that needs the ability; the error names them.

    Raises:
        InvalidParameter: the driver does not provide the ability, or there is no driver.
    """
    rule = find_missing_ability(drivers, hypervisor, ability)
    if rule is not None:
        raise InvalidParameter(parameter, value, rule)


def find_missing_ability(drivers: Drivers, hypervisor: str, ability: type[Ability]) -> str | None:
    """Return the reason why a hypervisor's driver lacks an ability, or None if the driver provides the ability."""
    try:
        driver = drivers.configured_for(hypervisor)
    except NoDriverFor as error:
        return str(error)
    if ability in driver.abilities:
        return None
    name = ability.ability_name
    return f"hypervisor {hypervisor} does not support {name} (driver {driver.name!r} does not provide it)"


def require_device_parameters(
    drivers: Drivers, hypervisor: str, details: Mapping[str, str], parameter: str, value: object
) -> None:
    """Raise InvalidParameter if the details have disk or NIC parameters that the driver does not know.

    ``parameter`` and ``value`` are the parameter of the request that refers to the details; the error names them.

    Raises:
        InvalidParameter: the driver does not know a parameter, or there is no driver. The error lists the known
            parameters.
    """
    for device in Device:
        wanted = parameters_of(device, details)
        if not wanted:
            continue
        driver = require_driver(drivers, hypervisor, parameter, value)
        known = driver.device_parameters.get(device, frozenset())
        for name in sorted(wanted.keys() - known):
            names = ", ".join(f"{device}.{each}" for each in sorted(known)) or "none"
            rule = f"driver {driver.name!r} of hypervisor {hypervisor} does not support {device}.{name}"
            raise InvalidParameter(parameter, value, f"{rule}: the driver supports {names}")
