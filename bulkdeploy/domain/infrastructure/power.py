"""The power states and actions of hosts' management controllers (BMCs), with CloudStack's names."""

from enum import StrEnum


class PowerState(StrEnum):
    """The power states of hosts (response field ``powerstate``)."""

    ON = "On"
    OFF = "Off"
    UNKNOWN = "Unknown"
    """The controller did not answer, or reported neither On nor Off."""
    DISABLED = "Disabled"
    """Out-of-band management is disabled for the host, its cluster or its zone, or the state was not read yet."""


class PowerAction(StrEnum):
    """The values of the parameter ``action`` of issueOutOfBandManagementPowerAction."""

    ON = "ON"
    OFF = "OFF"
    """Cuts the power at once."""
    CYCLE = "CYCLE"
    RESET = "RESET"
    SOFT = "SOFT"
    """Asks the operating system to shut down."""
    STATUS = "STATUS"

    @property
    def is_repeatable(self) -> bool:
        """Return whether a repetition of the action has no further effect."""
        return self in (PowerAction.ON, PowerAction.OFF, PowerAction.STATUS)
