"""The power driver ``redfish``, for controllers with the Redfish interface; it uses the library sushy."""

from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import sushy
from pydantic import Field
from sushy import exceptions
from sushy.auth import BasicAuth
from sushy.connector import Connector
from typing_extensions import override

from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.drivers.options import DriverOptions
from bulkdeploy.power.driver import Bmc, PowerDriver, PowerError

RESETS = {
    PowerAction.ON: (sushy.RESET_TYPE_ON, sushy.RESET_TYPE_FORCE_ON),
    PowerAction.OFF: (sushy.RESET_TYPE_FORCE_OFF,),
    PowerAction.CYCLE: (sushy.RESET_TYPE_POWER_CYCLE, sushy.RESET_TYPE_FORCE_RESTART),
    PowerAction.RESET: (sushy.RESET_TYPE_FORCE_RESTART,),
    PowerAction.SOFT: (sushy.RESET_TYPE_GRACEFUL_SHUTDOWN,),
}
"""The Redfish reset types for each action. The first one that the controller allows is used."""

STATES = {sushy.PowerState.ON: PowerState.ON, sushy.PowerState.OFF: PowerState.OFF}
"""The power states for Redfish's states. Other states, such as PoweringOff, are UNKNOWN."""

RETRY_DELAY_S = 1


class RedfishOptions(DriverOptions):
    """Options of the power driver ``redfish``."""

    https: bool = Field(default=True, description="Use HTTPS. False: HTTP, which sends passwords unencrypted.")
    verify: bool = Field(default=True, description="Check the certificates of controllers.")
    ca_file: Path | None = Field(
        default=None,
        description="PEM file of the authorities that sign the certificates of controllers. If unset, the "
        "authorities of the system are used.",
    )
    tries: int = Field(default=2, ge=1, le=10, description="How often a request is sent if the connection fails.")


class RedfishDriver(PowerDriver):
    """The power driver for controllers with Redfish.

    An address such as ``10.0.0.5/node2`` names the system ``node2`` of a controller that manages several systems.
    Without such a name, the controller must manage exactly one system, so that no other server can be switched off
    by mistake.
    """

    options_model = RedfishOptions

    def __init__(self, options: RedfishOptions) -> None:
        self._scheme = "https" if options.https else "http"
        self._verify: bool | str = str(options.ca_file) if options.verify and options.ca_file else options.verify
        self._tries = options.tries

    @classmethod
    @override
    def from_options(cls, options: RedfishOptions) -> Self:
        return cls(options)

    @override
    def power_state(self, bmc: Bmc, *, timeout_s: float) -> PowerState:
        try:
            return STATES.get(self._system(bmc, timeout_s).power_state, PowerState.UNKNOWN)
        except exceptions.SushyError as error:
            raise _failure(bmc, error) from error

    @override
    def act(self, bmc: Bmc, action: PowerAction, *, timeout_s: float) -> None:
        try:
            system = self._system(bmc, timeout_s)
            if STATES.get(system.power_state) == {"ON": PowerState.ON, "OFF": PowerState.OFF}.get(action):
                return
            allowed = system.get_allowed_reset_system_values()
            reset = next((kind for kind in RESETS[action] if kind in allowed), None)
            if reset is None:
                raise PowerError(bmc.host_name, f"the controller does not offer {action}")
            system.reset_system(reset)
        except exceptions.SushyError as error:
            raise _failure(bmc, error) from error

    def _system(self, bmc: Bmc, timeout_s: float) -> Any:
        address, _, name = bmc.address.partition("/")
        host = f"[{address}]" if ":" in address else address
        url = f"{self._scheme}://{host}:{bmc.port}"
        connector = Connector(
            url,
            verify=self._verify,
            server_side_retries=self._tries,
            server_side_retries_delay=RETRY_DELAY_S,
            default_request_timeout=timeout_s,
        )
        # Neither a proxy of the environment nor the target of a redirect may get the password.
        connector._session.trust_env = False
        connector._session.max_redirects = 0
        try:
            root = sushy.Sushy(url, auth=BasicAuth(bmc.username, bmc.password), connector=connector)
            if name:
                return root.get_system(f"/redfish/v1/Systems/{quote(name, safe='')}")
            systems = root.get_system_collection().get_members()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PowerError(bmc.host_name, f"the response is not one of Redfish: {error}") from error
        if len(systems) != 1:
            names = ", ".join(sorted(str(one.identity) for one in systems)[:5]) or "none"
            rule = (
                f"the controller has {len(systems)} systems ({names}): the address must name one, as {address}/NAME"
            )
            raise PowerError(bmc.host_name, rule)
        return systems[0]


def _failure(bmc: Bmc, error: exceptions.SushyError) -> PowerError:
    is_unanswered = isinstance(error, exceptions.ConnectionError)
    return PowerError(
        bmc.host_name,
        str(error),
        is_auth=isinstance(error, exceptions.AccessError),
        is_unanswered=is_unanswered,
    )
