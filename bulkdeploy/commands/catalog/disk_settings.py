"""Parameters and fields of offerings that define how hypervisors provide disks."""

from bulkdeploy.declare.parameters import Needs, Parameter, boolean, long, string
from bulkdeploy.declare.response_fields import flag, large_number, text
from bulkdeploy.declare.responses import Field
from bulkdeploy.store.catalog.disk_settings import RATES

PROVISIONING_TYPES = ("thin", "sparse", "fat")
CACHE_MODES = ("none", "writeback", "writethrough")
UNITS = {"bytes": "bytes per second", "iops": "operations per second"}


def _described(name: str) -> str:
    what = UNITS["bytes" if name.startswith("bytes") else "iops"]
    direction = "read" if "read" in name else "written"
    if name.endswith("maxlength"):
        return f"the maximum duration of a burst of {direction} {what}, in seconds"
    return f"the maximum of {what} {direction}{' in a burst' if name.endswith('max') else ''}"


DISK_RULES = tuple(
    Needs(f"{base}{longer}", f"{base}{shorter}")
    for base in (rate.parameter for rate in RATES if rate.parameter.endswith("rate"))
    for longer, shorter in (("max", ""), ("maxlength", "max"))
)


def disk_parameters(encrypt: str) -> tuple[Parameter, ...]:
    """Return the parameters for disk settings. ``encrypt`` is the name of the parameter for encryption."""
    refused = "; VMs and volumes of the offering are rejected on hypervisors whose driver does not support this"
    return (
        string("cachemode", f"the cache mode of disks{refused}", choices=CACHE_MODES),
        boolean(encrypt, f"whether disks are encrypted{refused}"),
        *(long(rate.parameter, f"{_described(rate.parameter)}{refused}", minimum=1) for rate in RATES),
    )


def disk_fields(encrypt: str) -> tuple[Field, ...]:
    """Return the response fields of disk settings. ``encrypt`` is the name of the field for encryption."""
    return (
        text("cacheMode", "the cache mode of disks"),
        flag(encrypt, "whether disks are encrypted"),
        *(large_number(rate.field, _described(rate.parameter)) for rate in RATES),
    )
