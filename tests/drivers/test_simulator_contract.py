"""The simulator keeps what every driver must keep."""

import pytest
from psycopg import Connection

from bulkdeploy.drivers.simulator import SimulatorDriver
from bulkdeploy.drivers.simulator_control import FaultKind, FaultRule, Step, add_fault
from tests.drivers.contract import DriverContract, FencingContract, Rig
from tests.drivers.device_contract import DeviceContract
from tests.drivers.migration_contract import MigrationContract
from tests.drivers.subjects import address, new_host
from tests.drivers.volume_contract import VolumeContract

ROOM = 5


class TestSimulatorContract(DriverContract, MigrationContract, VolumeContract, DeviceContract, FencingContract):
    """Hosts that are full by CPU, memory or number of guests, one after the other."""

    @pytest.fixture(params=["cpu", "memory", "guests"])
    def rig(self, request: pytest.FixtureRequest, simulator: SimulatorDriver, control: Connection) -> Rig:
        """Two simulated hosts, and fault rules that strike once."""
        limits = {
            "cpu": {"cpu_mhz": 500 * ROOM + 499},
            "memory": {"memory_mib": 256 * ROOM + 255},
            "guests": {"guests": ROOM},
        }
        hosts = [new_host(f"host-{number}", **limits[request.param]) for number in (1, 2)]
        simulator.sync_hosts(hosts)

        def fail_next(step: str) -> None:
            add_fault(control, FaultRule(Step(step), FaultKind.TRANSIENT, remaining=1))

        return Rig(simulator, tuple(address(host) for host in hosts), ROOM, fail_next)
