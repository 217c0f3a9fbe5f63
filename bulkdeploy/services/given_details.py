"""Checks of the details of VMs and offerings in calls.

Some details must be given as other parameters, and some may only be given by root admins.
"""

from collections.abc import Mapping

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.infrastructure.host_ha import HA_PRIORITY, HIGHEST_PRIORITY
from bulkdeploy.domain.virtual_machines.device_parameters import VARIANT, is_device_parameter
from bulkdeploy.domain.virtual_machines.firmware import UEFI

EXTRA_CONFIG = "extraconfig"
_PARAMETERS_OF_DEPLOYMENT = {UEFI: "boottype and bootmode", VARIANT: VARIANT}
"""Details of a VM that are written when it is deployed, and the parameters of the deploy call that say them."""


def check_no_extra_config(details: Mapping[str, str], parameter: str) -> None:
    """Reject details whose names begin with ``extraconfig``, as CloudStack does.

    Raises:
        InvalidParameter: a detail has such a name.
    """
    for name in details:
        if name.lower().startswith(EXTRA_CONFIG):
            rule = f"the name of a detail must not begin with {EXTRA_CONFIG}"
            raise InvalidParameter(f"{parameter}[0].{name}", details[name], rule)


def check_ha_priority(caller: Caller, details: Mapping[str, str], parameter: str) -> None:
    """Check the detail with the priority by which HA restarts VMs of a dead host, if it is given.

    Raises:
        InvalidParameter: the value is not a whole number from 0 to HIGHEST_PRIORITY.
        PermissionDenied: the caller is not a root admin. Otherwise each owner could choose the highest priority.
    """
    value = details.get(HA_PRIORITY)
    if value is None:
        return
    if not caller.is_root_admin:
        raise PermissionDenied(f"Only root admins may give {parameter}[0].{HA_PRIORITY}")
    if not (value.isascii() and value.isdigit() and int(value) <= HIGHEST_PRIORITY):
        rule = f"it must be a whole number from 0 to {HIGHEST_PRIORITY}"
        raise InvalidParameter(f"{parameter}[0].{HA_PRIORITY}", value, rule)


def check_given_details(caller: Caller, details: Mapping[str, str], parameter: str) -> None:
    """Check that a caller may set these details of a VM or an offering. Errors name ``parameter``.

    Only root admins may set the details of disks and NICs, because a NIC's detail can name any bridge of a host.

    Raises:
        InvalidParameter: a detail must be given as a parameter of deploy calls or is extra configuration, or the HA
            priority is not valid.
        PermissionDenied: a detail belongs to disks or NICs or is the HA priority, and the caller is not a root
            admin.
    """
    check_no_extra_config(details, parameter)
    check_ha_priority(caller, details, parameter)
    for name, parameters in _PARAMETERS_OF_DEPLOYMENT.items():
        if name in details:
            rule = f"it must be given to deploy calls as {parameters}, not as a detail"
            raise InvalidParameter(f"{parameter}[0].{name}", details[name], rule)
    of_devices = sorted(filter(is_device_parameter, details))
    if of_devices and not caller.is_root_admin:
        raise PermissionDenied(
            f"Only root admins may give {parameter}[0].{of_devices[0]}: ask one for an offering with this detail"
        )
