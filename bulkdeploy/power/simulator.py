"""The power driver ``simulator``, which switches simulated hosts off and on."""

from typing import LiteralString, Self

from typing_extensions import override

from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.simulator.database import ensure_database
from bulkdeploy.drivers.simulator.link import SimulatorLink
from bulkdeploy.drivers.simulator.options import SimulatorOptions
from bulkdeploy.power.driver import Bmc, PowerDriver, PowerError

READ: LiteralString = "SELECT is_off, is_bmc_dead FROM simulator.hosts WHERE uuid = %s"
SWITCH_OFF: LiteralString = "SELECT simulator_code.ensure_fenced(%s)"
SWITCH_ON: LiteralString = "UPDATE simulator.hosts SET is_off = false WHERE uuid = %s"


class SimulatedPower(PowerDriver):
    """The power driver of simulated hosts.

    Their controllers accept every user and password.

    Args:
        url: the ``postgresql://`` URL of the simulator's database.
    """

    options_model = SimulatorOptions
    changes_passwords = True

    def __init__(self, url: str) -> None:
        self._link = SimulatorLink(url, pool_size=4, durable=True)

    @classmethod
    @override
    def from_options(cls, options: SimulatorOptions) -> Self:
        url = options.url.get_secret_value()
        ensure_database(url)
        return cls(url)

    @override
    def power_state(self, bmc: Bmc, *, timeout_s: float) -> PowerState:
        ((is_off, is_dead),) = self._request(bmc, READ, timeout_s) or [(False, True)]
        if is_dead:
            raise PowerError(bmc.host_name, "no route to the management controller", is_unanswered=True)
        return PowerState.OFF if is_off else PowerState.ON

    @override
    def act(self, bmc: Bmc, action: PowerAction, *, timeout_s: float) -> None:
        is_off = self.power_state(bmc, timeout_s=timeout_s) is PowerState.OFF
        if action is not PowerAction.ON and not is_off:
            self._request(bmc, SWITCH_OFF, timeout_s)
        if action in (PowerAction.ON, PowerAction.CYCLE, PowerAction.RESET):
            self._request(bmc, SWITCH_ON, timeout_s)

    def change_password(self, bmc: Bmc, password: str, *, timeout_s: float) -> None:
        """Check that the controller answers. A simulated controller has no password to change."""
        del password
        self.power_state(bmc, timeout_s=timeout_s)

    @override
    def close(self) -> None:
        self._link.close()

    def _request(self, bmc: Bmc, query: LiteralString, timeout_s: float) -> list[tuple[bool, bool]]:
        def run(link: object) -> list[tuple[bool, bool]]:
            done = link.execute(query, [bmc.host_uuid])  # type: ignore[attr-defined]
            return list(done.fetchall()) if done.description is not None else []

        try:
            return self._link.request("power", bmc.host_name, run, patience_s=timeout_s)
        except DriverError as error:
            raise PowerError(bmc.host_name, error.reason, is_unanswered=error.unanswered) from error
