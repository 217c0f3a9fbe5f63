"""Alerts: conditions about which operators must be informed, with CloudStack's names."""

from dataclasses import dataclass
from enum import Enum


class AlertType(Enum):
    """The types of alerts. A value consists of CloudStack's number and name of the type."""

    STORAGE = (2, "ALERT.STORAGE")
    HOST = (7, "ALERT.COMPUTE.HOST")
    USER_VM = (8, "ALERT.USERVM")
    MANAGEMENT_NODE = (14, "ALERT.MANAGEMENT")
    POWER_LOGIN = (29, "ALERT.OOBM.AUTHERROR")
    HA_ACTION = (30, "ALERT.HA.ACTION")

    @property
    def number(self) -> int:
        """The number of the alert type in responses (``type``)."""
        return self.value[0]

    @property
    def wire_name(self) -> str:
        """The name of the alert type in responses (``name``)."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that an operator must see, described in one sentence."""

    type: AlertType
    description: str
