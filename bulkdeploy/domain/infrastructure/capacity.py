"""Kinds of capacity, with CloudStack's numbers and names (cloudstack-protocol.md 6.6)."""

from enum import IntEnum


class CapacityType(IntEnum):
    """The types of capacity, by CloudStack's numbers. Units: memory and storage bytes, CPU MHz, others pieces."""

    MEMORY = 0
    CPU = 1
    STORAGE = 2
    STORAGE_ALLOCATED = 3
    DIRECT_ATTACHED_PUBLIC_IP = 8
    LOCAL_STORAGE = 9
    CPU_CORE = 90


class CapacityLevel(IntEnum):
    """The level at which capacity is summed: one result per zone, per pod or per cluster."""

    ZONE = 0
    POD = 1
    CLUSTER = 2


def percentage(part: float, total: float) -> str:
    """Return a share in percent with at most two decimals, as CloudStack writes ``percentused``: ``12.5``."""
    if total <= 0:
        return "0"
    return f"{100 * part / total:.2f}".rstrip("0").rstrip(".")
