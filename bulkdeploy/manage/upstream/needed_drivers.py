"""A check that the settings name the cloudstack driver for the hypervisor types of a CloudStack."""

from collections.abc import Iterable

from bulkdeploy.cloudstack.client import Row
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.manage.upstream.sections import hypervisor_of
from bulkdeploy.services.abilities import CLOUDSTACK
from bulkdeploy.services.system import System


def is_driven_by_cloudstack(system: System, hypervisor: str) -> bool:
    """Return whether the settings name the cloudstack driver for a hypervisor type."""
    driver = system.drivers.find(hypervisor)
    return driver is not None and driver.name == CLOUDSTACK


def require_drivers(system: System, clusters: Iterable[Row]) -> None:
    """Check that the settings name the cloudstack driver for the hypervisor types of these clusters.

    Raises:
        InvalidParameter: the settings name no driver or another one. The error contains the settings to add.
    """
    types = {hypervisor_of(row, "hypervisortype") for row in clusters}
    missing = sorted(one for one in types if not is_driven_by_cloudstack(system, one))
    if missing:
        named = ", ".join(f'{one} = "{CLOUDSTACK}"' for one in missing)
        raise InvalidParameter(
            "drivers",
            ", ".join(missing),
            "the settings do not name the cloudstack driver for these hypervisor"
            " types of the CloudStack. Nothing was"
            f" imported. Add to the configuration of all programs: in [drivers] {named}; in [driver.{CLOUDSTACK}]"
            " the url, apikey and secretkey of that CloudStack",
        )
