"""The firmware of VMs in CloudStack's terms: ``boottype`` and ``bootmode``."""

from collections.abc import Mapping
from enum import StrEnum

UEFI = "UEFI"
"""The detail of VMs, and of templates, that says that they boot with UEFI; its value is a BootMode."""


class BootType(StrEnum):
    """The types of firmware: BIOS or UEFI (parameter ``boottype``)."""

    BIOS = "BIOS"
    UEFI = "UEFI"


class BootMode(StrEnum):
    """The modes of UEFI. SECURE boots only signed programs. BIOS supports only LEGACY."""

    LEGACY = "LEGACY"
    SECURE = "SECURE"


def boot_mode_of(details: Mapping[str, str]) -> BootMode | None:
    """Return the UEFI boot mode in the details of a VM, or None if the VM boots with BIOS.

    VMs of earlier releases can have any text in this detail. An unknown text means BIOS.
    """
    try:
        return BootMode(details[UEFI])
    except (KeyError, ValueError):
        return None
