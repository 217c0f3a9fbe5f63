"""The requirements of a hypervisor, as ``bulkdeploy check`` reports them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement: what was found, and how to mend it if it failed (``remedy``)."""

    name: str
    found: str
    remedy: str | None = None
