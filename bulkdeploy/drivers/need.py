"""The results of the checks with which ``bulkdeploy check`` examines a hypervisor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """The result of one check: its name, what was found, and what to do about a failure.

    ``remedy`` is None if the check passed.
    """

    name: str
    found: str
    remedy: str | None = None
