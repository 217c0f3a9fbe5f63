"""Details that calls give VMs and offerings: some are said otherwise, some are for root admins alone."""

from collections.abc import Mapping

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.device_parameters import VARIANT, is_device_parameter
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.firmware import UEFI

_PARAMETERS_OF_DEPLOYMENT = {UEFI: "boottype and bootmode", VARIANT: VARIANT}
"""Details of a VM that are written when it is deployed, and the parameters of the deploy call that say them."""


def check_given_details(caller: Caller, details: Mapping[str, str], parameter: str) -> None:
    """Check that a caller may give a VM or an offering these details; ``parameter`` has them.

    Those of disks and nics are for root admins: a nic's may name any bridge of a host.

    Raises:
        InvalidParameter: one is said by parameters of deploy calls.
        PermissionDenied: one is of disks or nics, and the caller is not a root admin.
    """
    for name, parameters in _PARAMETERS_OF_DEPLOYMENT.items():
        if name in details:
            rule = f"it must be given to deploy calls as {parameters}, not as a detail"
            raise InvalidParameter(f"{parameter}[0].{name}", details[name], rule)
    of_devices = sorted(filter(is_device_parameter, details))
    if of_devices and not caller.is_root_admin:
        raise PermissionDenied(
            f"Only root admins may give {parameter}[0].{of_devices[0]}: ask one for an offering that has it"
        )
