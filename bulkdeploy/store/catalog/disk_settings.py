"""Cache mode, rates and encryption of disks, which offerings store as disk parameters.

``domain.virtual_machines.device_parameters`` names parameters of disks. A hypervisor whose driver does not know a
parameter rejects VMs and volumes of an offering that has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Table, cast, literal

from bulkdeploy.domain.virtual_machines.device_parameters import Device
from bulkdeploy.store.rows.filters import Arguments, Condition, Filter
from bulkdeploy.store.rows.live_rows import Fields

PREFIX = f"{Device.DISK}."
CACHE = f"{PREFIX}cache"
ENCRYPT = f"{PREFIX}encrypt"
TRUE = "true"


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit of disks.

    Attributes:
        parameter: the parameter of API calls that sets the limit, such as ``bytesreadratemax``.
        field: the response field with the limit, such as ``diskBytesReadRateMax``.
        disk_parameter: the disk parameter that stores the limit, such as ``disk.read_bytes_sec_max``.
    """

    parameter: str
    field: str
    disk_parameter: str


RATES = tuple(
    Rate(
        f"{unit}{direction}rate{bound.lower()}",
        f"disk{unit.capitalize()}{direction.capitalize()}Rate{bound}",
        f"{PREFIX}{direction}_{unit}_sec{suffix}",
    )
    for unit in ("bytes", "iops")
    for direction in ("read", "write")
    for bound, suffix in (("", ""), ("Max", "_max"), ("MaxLength", "_max_length"))
)


def disk_parameters_of(given: Arguments, encrypt: str) -> dict[str, str]:
    """Return the disk parameters that the arguments of a call set.

    ``encrypt`` is the name of the call's argument that requests encryption.
    """
    found = {rate.disk_parameter: str(given[rate.parameter]) for rate in RATES if rate.parameter in given}
    if given.get("cachemode"):
        found[CACHE] = given["cachemode"]
    if given.get(encrypt):
        found[ENCRYPT] = TRUE
    return found


def disk_fields(offerings: Table, encrypt: str) -> Fields:
    """Return, for each parameter of disk settings, the column expression with its value."""
    held = offerings.c.disk_parameters
    return {
        "cachemode": held[CACHE].astext,
        encrypt: is_encrypted(offerings),
        **{rate.parameter: cast(held[rate.disk_parameter].astext, BigInteger) for rate in RATES},
    }


def is_encrypted(offerings: Table) -> ColumnElement[bool]:
    """Return whether disks of an offering are to be encrypted, as an expression."""
    return offerings.c.disk_parameters.op("?", is_comparison=True)(ENCRYPT)


def encrypted(offerings: Table) -> Filter:
    """Return the filter that selects offerings by whether their disks are encrypted."""

    def condition(wanted: bool) -> Condition:
        return is_encrypted(offerings) == literal(wanted)

    return condition


def show_disk_settings(row: dict[str, Any], encrypt: str) -> None:
    """Replace the column ``disk_parameters`` of a row by the response fields for cache mode, encryption and rates.

    ``encrypt`` is the name of the response field for encryption.
    """
    held: Mapping[str, str] = row.pop("disk_parameters")
    row["cacheMode"] = held.get(CACHE)
    row[encrypt] = ENCRYPT in held
    row.update({rate.field: int(held[rate.disk_parameter]) for rate in RATES if rate.disk_parameter in held})
