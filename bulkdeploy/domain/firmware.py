"""What VMs boot with, in CloudStack's words: ``boottype`` and ``bootmode``."""

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
