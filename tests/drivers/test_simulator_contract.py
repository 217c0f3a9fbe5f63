"""The simulator keeps what every driver must keep."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import cast
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from bulkdeploy.drivers.contract import (
    BatchContract,
    CapacityContract,
    Contents,
    DeclaredOffContract,
    DetailsContract,
    DeviceContract,
    DriverContract,
    FencingContract,
    HostContract,
    HostFencingContract,
    HostFilesContract,
    IsoContract,
    LeftoversContract,
    Machines,
    MigrationContract,
    Outage,
    OutageContract,
    ResizeContract,
    Rig,
    ScalingContract,
    ShrinkContract,
    SnapshotContract,
    StorageUnitContract,
    UsageContract,
    VolumeContract,
    VolumeTemplateContract,
)
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.drivers.records import Records
from bulkdeploy.drivers.simulator.control import FaultKind, FaultRule, Step, add_fault, cut_off, join_again
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.drivers.subjects import Caller, address, new_host

CAPACITY = 5
FULL_BY: Mapping[str, Mapping[str, int]] = {
    "cpu": {"cpu_mhz": 500 * CAPACITY + 499},
    "memory": {"memory_mib": 256 * CAPACITY + 255},
    "guests": {"guests": CAPACITY},
}


def make_rig(simulator: SimulatorDriver, control: Connection, limits: Mapping[str, int]) -> Rig:
    """Two simulated hosts, and fault rules that strike once."""
    hosts = [new_host(f"host-{number}", **limits) for number in (1, 2)]
    simulator.sync_hosts(hosts)

    def fail_next(step: str) -> None:
        add_fault(control, FaultRule(Step(step), FaultKind.TRANSIENT, remaining=1))

    return Rig(simulator, tuple(address(host) for host in hosts), fail_next)


class TestSimulatorContract(
    DriverContract,
    VolumeContract,
    VolumeTemplateContract,
    UsageContract,
    HostContract,
    BatchContract,
    MigrationContract,
    ScalingContract,
    DetailsContract,
    DeviceContract,
    IsoContract,
    ResizeContract,
    ShrinkContract,
    SnapshotContract,
    StorageUnitContract,
    FencingContract,
    HostFencingContract,
    HostFilesContract,
    DeclaredOffContract,
    OutageContract,
    LeftoversContract,
):
    """Hosts with room."""

    @pytest.fixture
    def files_folder(self) -> str:
        """Any will do."""
        return "/etc/app"

    @pytest.fixture
    def rig(self, simulator: SimulatorDriver, control: Connection) -> Rig:
        """Hosts with room for 100 guests, and a pool that they share."""
        rig = make_rig(simulator, control, {})
        directory = FixedDirectory(rig.hosts, replace(shared_pool(rig.subjects.pool_uuid), size_bytes=1 << 40))
        simulator.use_records(cast("Records", SimpleNamespace(directory=directory)))  # it uses no more of them
        return rig

    @pytest.fixture
    def outage(self, control: Connection) -> Outage:
        """Hosts that no call reaches, and that can be reached again."""

        def off(host: HostAddress) -> None:
            assert cut_off(control, host.name)

        def on(host: HostAddress) -> None:
            assert join_again(control, host.name)

        return Outage(off, on)

    @pytest.fixture
    def traces(self, control: Connection) -> Callable[[], set[str]]:
        """Return all that hosts and pools have of guests: a guest that is Absent is only its fence."""
        sql = """
            SELECT 'guest ' || uuid FROM simulator.guests WHERE power <> 'Absent'
            UNION SELECT 'stray guest ' || guest_uuid FROM simulator.stray_guests
            UNION SELECT 'volume ' || uuid FROM simulator.volumes
            UNION SELECT 'snapshot ' || uuid FROM simulator.snapshots
            UNION SELECT 'file ' || host_uuid || path FROM simulator.files
        """
        return lambda: {str(trace) for (trace,) in control.execute(sql).fetchall()}

    @pytest.fixture
    def contents(self, control: Connection) -> Contents:
        """What stands for the contents of volumes."""

        def write(volume: UUID, letter: str) -> None:
            control.execute("UPDATE simulator.volumes SET content = %s WHERE uuid = %s", [letter, volume])

        def read(volume: UUID) -> str:
            query = "SELECT content FROM simulator.volumes WHERE uuid = %s"
            return str(control.execute(query, [volume]).fetchall()[0][0])

        return Contents(write, read)

    @pytest.fixture
    def machines(self) -> Machines:
        """Machines are what their urls say; one whose url says nonsense is none."""
        promise = HostPromise(Decimal(2), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "Simulator", HostAccess(f"http://rack/{path}"), promise)
            for path in ("h1", "h2?cpu_cores=2", "h3?cpu_cores=none")
        )
        return Machines((first, second), silent)


class TestSimulatorCapacity(CapacityContract):
    """Hosts that are full by CPU, memory or number of guests, one after the other."""

    @pytest.fixture(params=FULL_BY)
    def rig(self, request: pytest.FixtureRequest, simulator: SimulatorDriver, control: Connection) -> Rig:
        """Hosts with room for ROOM guests."""
        return make_rig(simulator, control, FULL_BY[request.param])

    @pytest.fixture
    def caller(self, rig: Rig) -> Caller:
        """Calls the simulator."""
        return Caller(rig.driver)

    @pytest.fixture
    def capacity(self) -> int:
        """How many guests each host holds."""
        return CAPACITY
