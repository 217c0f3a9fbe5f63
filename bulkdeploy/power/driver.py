"""The interface of power drivers, which call the management controllers (BMCs) of hosts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from uuid import UUID

from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.drivers.options import DriverOptions


@dataclass(frozen=True, slots=True)
class Bmc:
    """The management controller of one host, with its address and login.

    Attributes:
        host_uuid: the host.
        host_name: the host's name, for messages.
        address: an IP address or a DNS name; drivers may define more, such as a system behind the controller.
        port: the port of the controller.
        username: the user of the controller.
        password: that user's password.
    """

    host_uuid: UUID
    host_name: str
    address: str
    port: int
    username: str
    password: str = field(repr=False)


class PowerError(Exception):
    """A call to a management controller that failed.

    Attributes:
        reason: the cause, as the controller or the connection reported it.
        is_auth: the controller rejected the user or the password.
        is_unanswered: the controller did not answer, so that the action may have been done.
    """

    def __init__(self, host_name: str, reason: str, *, is_auth: bool = False, is_unanswered: bool = False) -> None:
        self.reason, self.is_auth, self.is_unanswered = reason, is_auth, is_unanswered
        super().__init__(f"the management controller of host {host_name}: {reason}")


class PowerDriver(ABC):
    """A driver for one protocol of management controllers. It stores no state of hosts, and all threads share it.

    Attributes:
        options_model: the options of ``[power.NAME]`` in the settings.
        changes_passwords: whether ``change_password`` works.
    """

    options_model: ClassVar[type[DriverOptions]] = DriverOptions
    changes_passwords: ClassVar[bool] = False

    @classmethod
    def from_options(cls, options: Any) -> Self:
        """Create the driver with options of ``options_model``."""
        del options
        return cls()

    @abstractmethod
    def power_state(self, bmc: Bmc, *, timeout_s: float) -> PowerState:
        """Return ON, OFF or UNKNOWN, as the controller reports it.

        Raises:
            PowerError: the controller did not answer or rejected the request.
        """

    @abstractmethod
    def act(self, bmc: Bmc, action: PowerAction, *, timeout_s: float) -> None:
        """Request an action other than STATUS. Returns when the controller has accepted the action.

        ON for a host that is on, and OFF for a host that is off, succeed and change nothing.

        Raises:
            PowerError: the controller did not answer or rejected the request.
        """

    def change_password(self, bmc: Bmc, password: str, *, timeout_s: float) -> None:
        """Change the password of the controller's user.

        Raises:
            PowerError: the controller did not answer or rejected the request.
        """
        del password, timeout_s
        raise PowerError(bmc.host_name, "the power driver cannot change passwords")

    def close(self) -> None:
        """Release the resources of the driver."""
        return
