"""What must be so before a hypervisor can be used, as ``bulkdeploy check`` reports it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that is needed: what was found, and how it is mended where it failed (``remedy``)."""

    name: str
    found: str
    remedy: str | None = None
