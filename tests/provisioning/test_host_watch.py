"""The sweeper's look at hosts: states of hosts and VMs follow what is seen, after a second look."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.drivers.driver import DriverError, Guest
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.provisioning.host_watch import DOWN_S, HostWatch
from tests.support.fleet import Fleet, OneDriver


class Window(OneDriver):
    """Simulated hosts, looked at one by one; some keep silent."""

    is_watched = True
    silent: frozenset[UUID] = frozenset()

    def driver_for(self, hypervisor: str) -> Any:
        """Itself."""
        del hypervisor
        return self

    def guests_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[Guest]:
        """What the simulator has there."""
        del timeout_s
        if host.uuid in self.silent:
            raise DriverError("look", host.name, "no answer", transient=True)
        return [guest for guest in self.driver.list_guests() if guest.host_uuid == host.uuid]


class Clock:
    """Seconds that a test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        """What it is."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Time stands still."""
    return Clock()


@pytest.fixture
def window(fleet: Fleet) -> Window:
    """The fleet's hosts, with urls."""
    fleet.zone.change("UPDATE hosts SET url = 'http://' || name")
    return Window(fleet.driver)


@pytest.fixture
def watch(fleet: Fleet, window: Window, clock: Clock) -> HostWatch:
    """The pass."""
    return HostWatch(fleet.engine, window, 1.0, clock=clock)


def test_a_silent_host_is_disconnected_then_down_then_up(
    fleet: Fleet, window: Window, watch: HostWatch, clock: Clock
) -> None:
    """Its VMs stay Running: nobody knows that they are not."""
    fleet.deploy()
    fleet.run()
    vm = fleet.vms()[0]
    uuid = fleet.zone.scalar("SELECT uuid FROM hosts WHERE id = :id", id=vm.host_id)

    def state() -> object:
        watch.watch_hosts()
        return fleet.zone.scalar("SELECT state FROM hosts WHERE uuid = :uuid", uuid=uuid)

    assert state() == "Up"
    window.silent = frozenset({uuid})
    assert state() == "Disconnected"
    clock.now = DOWN_S
    assert state() == "Down"
    window.silent = frozenset()
    assert state() == "Up"
    assert {row.state for row in fleet.vms()} == {"Running"}
    fleet.assert_intact()


def test_a_vm_whose_guest_ended_is_stopped(fleet: Fleet, watch: HostWatch) -> None:
    """By a job of its own, after two looks; it gives its host back, and others run on."""
    fleet.deploy()
    fleet.run()
    ended, *others = fleet.vms()
    jobs = len(fleet.jobs())
    host = fleet.zone.rows("SELECT uuid, name FROM hosts WHERE id = :id", id=ended.host_id)[0]
    address = HostAddress(host.uuid, host.name, "192.0.2.1", "Simulator")
    fleet.driver.ensure_stopped(address, ended.uuid, forced=True, fence=1 << 40, timeout_s=5)
    watch.watch_hosts()
    assert len(fleet.jobs()) == jobs
    watch.watch_hosts()
    assert len(fleet.jobs()) == jobs + 1
    watch.watch_hosts()
    assert len(fleet.jobs()) == jobs + 1
    states = {row.uuid: row.state for row in fleet.vms()}
    assert {states[row.uuid] for row in others} == {"Running"}


def test_a_vm_that_a_job_works_on_is_left_alone(fleet: Fleet, watch: HostWatch) -> None:
    """However often it is looked at: its guest may be on its way."""
    fleet.deploy()
    jobs = len(fleet.jobs())
    for _ in range(3):
        watch.watch_hosts()
    assert len(fleet.jobs()) == jobs
