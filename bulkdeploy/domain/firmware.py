"""What VMs boot with, in CloudStack's words: ``boottype`` and ``bootmode``."""

from collections.abc import Mapping
from enum import StrEnum

UEFI = "UEFI"
"""The detail of VMs, and of templates, that says that they boot with UEFI; its value is a BootMode."""


class BootType(StrEnum):
    """The firmware."""

    BIOS = "BIOS"
    UEFI = "UEFI"


class BootMode(StrEnum):
    """How UEFI boots; SECURE: only what is signed. BIOS has LEGACY alone."""

    LEGACY = "LEGACY"
    SECURE = "SECURE"


def boot_mode_of(details: Mapping[str, str]) -> BootMode | None:
    """How UEFI boots a VM that has these details; None: BIOS does.

    VMs of earlier releases may have any text there, which meant nothing: what is no BootMode means BIOS.
    """
    try:
        return BootMode(details[UEFI])
    except (KeyError, ValueError):
        return None
