"""Alerts: conditions that operators must know, with CloudStack's names."""

from dataclasses import dataclass
from enum import Enum


class AlertType(Enum):
    """``type`` and ``name`` of an alert, by CloudStack's numbers."""

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
    """An event that an operator must see, as one sentence."""

    type: AlertType
    description: str
