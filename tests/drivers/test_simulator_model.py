"""Random calls and faults against a model of a few lines: the simulator must agree at every moment."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from bulkdeploy.drivers.errors import DriverError, StaleFence
from bulkdeploy.drivers.guests import GuestSpec, PowerState
from bulkdeploy.drivers.simulator.control import FaultKind, FaultRule, HangEffect, Step, add_fault, list_faults
from bulkdeploy.drivers.simulator.database import clear_state, connect
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.inventory import list_hosts
from tests.drivers.subjects import address, guests_of, new_guest, new_host, volume_uuids

pytestmark = pytest.mark.long

GUESTS, HOSTS, CAPACITY = 4, 2, 2
START = ("volume", "network", "boot")
FAILED, STALE = DriverError, StaleFence

guest_numbers = st.integers(0, GUESTS - 1)
host_numbers = st.integers(0, HOSTS - 1)
fences = st.integers(1, 3)


@dataclass
class Model:
    """What must be: place and power by guest, fences seen, volumes, and the faults that wait."""

    place: dict[int, tuple[int, str]] = field(default_factory=dict)
    fence: dict[int, int] = field(default_factory=dict)
    volumes: set[UUID] = field(default_factory=set)
    faults: list[FaultRule] = field(default_factory=list)

    def gate(self, guest: int, host: int | None, fence: int) -> type[DriverError] | None:
        """How a call is refused before anything is done, if it is."""
        if fence < self.fence.get(guest, 0):
            return STALE
        self.fence[guest] = fence
        elsewhere = guest in self.place and host is not None and self.place[guest][0] != host
        return FAILED if elsewhere else None

    def fault(self, steps: tuple[str, ...]) -> FaultRule | None:
        """The fault that strikes a call with these steps: the earliest step's, then the oldest."""
        fitting = [fault for fault in self.faults if fault.step in steps]
        if not fitting:
            return None
        first = min(fitting, key=lambda fault: steps.index(fault.step))
        self.faults.remove(first)
        return first

    def running_on(self, host: int) -> int:
        """How many guests run there."""
        return list(self.place.values()).count((host, "Running"))

    def start(self, guest: int, host: int, spec: GuestSpec, fence: int) -> type[DriverError] | None:
        """``ensure_running``."""
        refusal = self.gate(guest, host, fence)
        if refusal or self.place.get(guest) == (host, "Running"):
            return refusal
        fault = self.fault(START)
        ends_at = fault.step if fault and fault.effect is not HangEffect.DONE else None
        disks = volume_uuids(spec)
        self.volumes |= set(disks[:-1] if ends_at == "volume" else disks)
        if ends_at is None and self.running_on(host) < CAPACITY:
            self.place[guest] = (host, "Running")
        elif ends_at != "volume":
            self.place[guest] = (host, "Stopped")
        return FAILED if fault or self.place[guest][1] != "Running" else None

    def stop(self, guest: int, host: int, fence: int) -> type[DriverError] | None:
        """``ensure_stopped``."""
        refusal = self.gate(guest, host, fence)
        if refusal or guest not in self.place:
            return refusal
        fault = self.fault(("stop",))
        if fault is None or fault.effect is HangEffect.DONE:
            del self.place[guest]
        return FAILED if fault else None

    def remove(self, guest: int, host: int | None, spec: GuestSpec, fence: int) -> type[DriverError] | None:
        """``ensure_absent``."""
        refusal = self.gate(guest, host, fence)
        if refusal or not (guest in self.place or self.volumes & set(volume_uuids(spec))):
            return refusal
        fault = self.fault(("delete",))
        if fault is None or fault.effect is HangEffect.DONE:
            self.volumes -= set(volume_uuids(spec))
        if fault is None or fault.effect is not HangEffect.UNDONE:
            self.place.pop(guest, None)
        return FAILED if fault else None

    def migrate(self, guest: int, source: int, host: int, fence: int) -> type[DriverError] | None:
        """``ensure_migrated``."""
        refusal = self.gate(guest, None, fence)
        place = self.place.get(guest)
        if refusal or place == (host, "Running"):
            return refusal
        if place != (source, "Running"):
            return FAILED
        fault = self.fault(("migrate",))
        has_capacity = self.running_on(host) < CAPACITY
        if has_capacity and (fault is None or fault.effect is HangEffect.DONE):
            self.place[guest] = (host, "Running")
        return FAILED if fault or not has_capacity else None


class SimulatorMachine(RuleBasedStateMachine):
    """Calls the simulator and the model, and compares."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.control = connect(self.url)
        clear_state(self.control)
        self.driver = SimulatorDriver(self.url, pool_size=1, sleep=lambda _: None)
        hosts = [new_host(f"host-{number}", guests=CAPACITY) for number in range(HOSTS)]
        self.driver.sync_hosts(hosts)
        self.hosts = [address(host) for host in hosts]
        self.guests = [new_guest() for _ in range(GUESTS)]
        self.model = Model()

    def teardown(self) -> None:
        """Give back connections."""
        self.driver.close()
        self.control.close()

    def same(self, expected: type[DriverError] | None, call: Callable[[], None]) -> None:
        """The call ends as the model says."""
        answer: DriverError | None = None
        try:
            call()
        except DriverError as error:
            answer = error
        assert (None if answer is None else type(answer)) is expected, answer

    @rule(guest=guest_numbers, host=host_numbers, fence=fences)
    def start(self, guest: int, host: int, fence: int) -> None:
        """Make a guest run."""
        spec = self.guests[guest]
        self.same(
            self.model.start(guest, host, spec, fence),
            lambda: self.driver.ensure_running(self.hosts[host], spec, fence=fence, timeout_s=60),
        )

    @rule(guest=guest_numbers, host=host_numbers, fence=fences)
    def stop(self, guest: int, host: int, fence: int) -> None:
        """Make a guest stop."""
        uuid = self.guests[guest].uuid
        self.same(
            self.model.stop(guest, host, fence),
            lambda: self.driver.ensure_stopped(self.hosts[host], uuid, forced=False, fence=fence, timeout_s=60),
        )

    @rule(guest=guest_numbers, source=host_numbers, host=host_numbers, fence=fences)
    def migrate(self, guest: int, source: int, host: int, fence: int) -> None:
        """Make a guest run elsewhere."""
        spec, hosts = self.guests[guest], self.hosts
        self.same(
            self.model.migrate(guest, source, host, fence),
            lambda: self.driver.ensure_migrated(hosts[source], hosts[host], spec, fence=fence, timeout_s=60),
        )

    @rule(guest=guest_numbers, host=st.none() | host_numbers, fence=fences)
    def remove(self, guest: int, host: int | None, fence: int) -> None:
        """Make a guest and its volumes go."""
        spec = self.guests[guest]
        where = None if host is None else self.hosts[host]
        self.same(
            self.model.remove(guest, host, spec, fence),
            lambda: self.driver.ensure_absent(where, spec.uuid, volume_uuids(spec), fence=fence, timeout_s=60),
        )

    @rule(
        step=st.sampled_from([step for step in Step if step is not Step.ANY]),
        effect=st.none() | st.sampled_from(HangEffect),
    )
    def break_once(self, step: Step, effect: HangEffect | None) -> None:
        """Arm a fault: a failure, or a hang that has its effect or not."""
        fault = FaultRule(
            step, FaultKind.TRANSIENT if effect is None else FaultKind.HANG, remaining=1, effect=effect
        )
        add_fault(self.control, fault)
        self.model.faults.append(fault)

    @invariant()
    def guests_and_volumes_agree(self) -> None:
        """Places, powers and volumes are those of the model."""
        listed = {uuid: (guest.host_uuid, guest.power) for uuid, guest in guests_of(self.driver).items()}
        assert listed == {
            self.guests[number].uuid: (self.hosts[host].uuid, PowerState(power))
            for number, (host, power) in self.model.place.items()
        }
        assert {volume[0] for volume in self.driver.list_volumes()} == self.model.volumes

    @invariant()
    def hosts_add_up(self) -> None:
        """Used counters are the sums of what runs, and within the limits."""
        for use in list_hosts(self.control):
            running = self.model.running_on(
                next(i for i, host in enumerate(self.hosts) if host.uuid == use.host.uuid)
            )
            assert (use.guests_used, use.cpu_mhz_used, use.memory_mib_used) == (
                running,
                running * 500,
                running * 256,
            )
            assert running <= CAPACITY

    @invariant()
    def faults_agree(self) -> None:
        """As many faults are left as the model has left."""
        assert sum(fault.remaining or 0 for fault in list_faults(self.control)) == len(self.model.faults)


@pytest.fixture
def machine(simulator_url: str) -> Iterator[type[SimulatorMachine]]:
    """The machine, knowing the test's database."""
    SimulatorMachine.url = simulator_url
    yield SimulatorMachine
    SimulatorMachine.url = ""


def test_the_simulator_agrees_with_its_model(machine: type[SimulatorMachine]) -> None:
    """Whatever is called in whatever order, answers and state are the model's."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
