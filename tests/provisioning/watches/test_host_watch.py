"""The sweeper's look at hosts: states of hosts and VMs follow what is seen, and alerts tell of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.provisioning.assignment import LEASES_PER_JOB
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.provisioning.watches.host_watch import HostWatch, Waits, state_after
from bulkdeploy.store.deployments.healing import broken_vms
from tests.support.zones.fleet import Fleet, OneDriver


class Window(OneDriver):
    """Simulated hosts of which looks tell the guests, as of those that may end by themselves."""

    is_watched = guests_may_end = True
    abilities: frozenset[type[Ability]] = frozenset()
    reported: frozenset[UUID] = frozenset()

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self.looked: list[list[UUID]] = []
        self.memory: dict[UUID, int] = {}
        self.crashed: list[Guest] = []

    def memory_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> Mapping[UUID, int]:
        """What a test says."""
        del hosts, timeout_s
        return self.memory

    def driver_for(self, hypervisor: str) -> Any:
        """Itself."""
        del hypervisor
        return self

    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """What a test tells, once."""
        del hosts
        reported, self.reported = self.reported, frozenset()
        return reported

    def look_at_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> list[Sequence[Guest]]:
        """What the simulator has there."""
        del timeout_s
        self.looked.append([host.uuid for host in hosts])
        guests = [*self.driver.list_guests(), *self.crashed]
        return [[guest for guest in guests if guest.host_uuid == host.uuid] for host in hosts]


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
def watch(fleet: Fleet, clock: Clock) -> HostWatch:
    """The pass, over the simulator."""
    return HostWatch(fleet.engine, OneDriver(fleet.driver), 1.0, clock=clock)


@pytest.fixture
def window(fleet: Fleet) -> Window:
    """Hosts that tell of their guests."""
    return Window(fleet.driver)


@pytest.fixture
def guest_watch(fleet: Fleet, window: Window, clock: Clock) -> HostWatch:
    """The passes over them."""
    return HostWatch(fleet.engine, window, 1.0, clock=clock)


def later(fleet: Fleet, clock: Clock, seconds: float) -> None:
    """Let time pass, here and in the database."""
    clock.now += seconds
    fleet.zone.change("UPDATE host_watches SET since = since - make_interval(secs => :s)", s=seconds)


def state_of(fleet: Fleet, host: str) -> object:
    """A host's state."""
    return fleet.zone.scalar("SELECT state FROM hosts WHERE name = :name", name=host)


def alerts(fleet: Fleet) -> list[str]:
    """What operators are reported, oldest first."""
    return [row.description for row in fleet.zone.rows("SELECT description FROM alerts ORDER BY id")]


def test_a_silent_host_is_disconnected_then_down_then_up(fleet: Fleet, watch: HostWatch, clock: Clock) -> None:
    """Each once, and alerts tell of silence; its VMs stay Running: nobody knows that they are not."""
    fleet.deploy()
    fleet.run()
    vm = fleet.vms()[0]
    host = str(fleet.zone.scalar("SELECT name FROM hosts WHERE id = :id", id=vm.host_id))

    def states(*seconds: float) -> list[object]:
        found = []
        for passed in seconds:
            later(fleet, clock, passed)
            watch.watch_hosts()
            found.append(state_of(fleet, host))
        return found

    assert states(0) == ["Up"]
    cut_off(fleet.control, host)
    assert states(5, 30, 29, 1) == ["Disconnected", "Disconnected", "Disconnected", "Down"]
    assert [text.split(" and ")[0] for text in alerts(fleet)] == [
        f"Host {host} is Disconnected",
        f"Host {host} is Down",
    ]
    join_again(fleet.control, host)
    assert states(5, 29, 1) == ["Down", "Down", "Up"]
    assert fleet.zone.scalar("SELECT count(*) FROM host_watches") == 0
    assert ({row.state for row in fleet.vms()}, len(alerts(fleet))) == ({"Running"}, 2)
    fleet.assert_intact()


def test_a_host_that_comes_and_goes_stays_disconnected(fleet: Fleet, watch: HostWatch, clock: Clock) -> None:
    """It makes one alert, and no VM comes to it, until it has answered for a while without a break."""
    for _ in range(5):
        cut_off(fleet.control, "a-1-1")
        watch.watch_hosts()
        later(fleet, clock, 20)
        join_again(fleet.control, "a-1-1")
        watch.watch_hosts()
        later(fleet, clock, 20)
        assert state_of(fleet, "a-1-1") == "Disconnected"
    assert len(alerts(fleet)) == 1
    watch.watch_hosts()
    later(fleet, clock, 30)
    watch.watch_hosts()
    assert state_of(fleet, "a-1-1") == "Up"


def test_a_host_that_another_sweeper_reaches_is_never_down(fleet: Fleet, watch: HostWatch, clock: Clock) -> None:
    """Who alone does not reach it may be cut off itself."""
    other = HostWatch(fleet.engine, OneDriver(fleet.driver), 1.0, clock=clock)
    for _ in range(5):
        cut_off(fleet.control, "a-1-1")
        watch.watch_hosts()
        join_again(fleet.control, "a-1-1")
        other.watch_hosts()
        later(fleet, clock, 20)
    assert state_of(fleet, "a-1-1") == "Disconnected"


def test_waits_are_settings(fleet: Fleet, watch: HostWatch, clock: Clock) -> None:
    """``host.down.wait`` and ``host.up.wait`` say how long."""
    fleet.set_value("host.down.wait", 5)
    fleet.set_value("host.up.wait", 0)
    cut_off(fleet.control, "a-1-1")
    watch.watch_hosts()
    later(fleet, clock, 5)
    watch.watch_hosts()
    assert state_of(fleet, "a-1-1") == "Down"
    join_again(fleet.control, "a-1-1")
    watch.watch_hosts()
    assert state_of(fleet, "a-1-1") == "Up"


def test_memory_of_hosts_follows_what_drivers_say(
    fleet: Fleet, guest_watch: HostWatch, window: Window, clock: Clock
) -> None:
    """Of those that they know it of, every half a minute; what is claimed stays so."""

    def memory() -> dict[str, tuple[int, int]]:
        rows = fleet.zone.rows(
            "SELECT h.name, h.memory_mib, c.memory_mib_limit FROM hosts h JOIN host_capacity c ON c.host_id = h.id"
        )
        return {row.name: (row.memory_mib, row.memory_mib_limit) for row in rows}

    before = memory()
    host = fleet.zone.rows("SELECT uuid, name FROM hosts ORDER BY id LIMIT 1")[0]
    window.memory = {host.uuid: 4096}
    guest_watch.watch_hosts()
    factor = before[host.name][1] / before[host.name][0]
    assert memory() == before | {host.name: (4096, int(4096 * factor))}
    window.memory = {host.uuid: 2048}
    later(fleet, clock, 29)
    guest_watch.watch_hosts()
    assert memory()[host.name][0] == 4096
    later(fleet, clock, 1)
    guest_watch.watch_hosts()
    assert memory()[host.name][0] == 2048
    fleet.assert_intact()


@pytest.mark.parametrize("state", list(HostState))
def test_states_follow_from_answers(state: HostState) -> None:
    """Whatever the state was: silence ends in Down, answers in Up, and neither at once."""
    waits = Waits(down_s=60, up_s=30)
    assert state_after(state, answers=False, lasted_s=60, waits=waits) == HostState.DOWN
    assert state_after(state, answers=True, lasted_s=30, waits=waits) == HostState.UP
    assert state_after(state, answers=True, lasted_s=29, waits=waits) == state
    assert state_after(state, answers=False, lasted_s=60, waits=waits, is_drained=True) == HostState.DISCONNECTED
    silent = HostState.DOWN if state == HostState.DOWN else HostState.DISCONNECTED
    assert state_after(state, answers=False, lasted_s=59, waits=waits) == silent


def end_guest(fleet: Fleet, vm: Any) -> None:
    """Let a VM's guest end by itself."""
    host = fleet.zone.rows("SELECT uuid, name FROM hosts WHERE id = :id", id=vm.host_id)[0]
    address = HostAddress(host.uuid, host.name, "192.0.2.1", "Simulator")
    of_its_last_job = max(job.id for job in fleet.jobs()) * LEASES_PER_JOB + LEASES_PER_JOB - 1
    fleet.driver.ensure_stopped(address, vm.uuid, forced=True, fence=of_its_last_job, timeout_s=5)


def test_a_vm_whose_guest_ended_is_stopped(fleet: Fleet, guest_watch: HostWatch, clock: Clock) -> None:
    """By a job of its own, after two looks that are a while apart; it gives its host back, and others run on."""
    fleet.deploy()
    fleet.run()
    ended, *others = fleet.vms()
    jobs = len(fleet.jobs())
    end_guest(fleet, ended)
    for _ in range(2):
        guest_watch.watch_hosts()
        assert len(fleet.jobs()) == jobs
    clock.now += 1
    for _ in range(2):
        guest_watch.watch_hosts()
        assert len(fleet.jobs()) == jobs + 1
    states = {row.uuid: row.state for row in fleet.vms()}
    assert {states[row.uuid] for row in others} == {"Running"}


def crash_guest(fleet: Fleet, window: Window, vm: Any) -> None:
    """Let a VM's guest end, and its host say that it crashed."""
    guests = [guest for guest in fleet.driver.list_guests() if guest.uuid == vm.uuid]
    window.crashed = [replace(guest, power=PowerState.STOPPED, has_crashed=True) for guest in guests]
    end_guest(fleet, vm)


def look_twice(guest_watch: HostWatch, clock: Clock) -> None:
    """Look at all hosts, and again after the time that a guest must be missing for."""
    for _ in range(2):
        guest_watch.watch_hosts()
        clock.now += 1


def test_a_crashed_guest_is_started_again_on_its_host_then_elsewhere_then_not(
    fleet: Fleet, window: Window, guest_watch: HostWatch, clock: Clock
) -> None:
    """A highly available VM is started on its host until it crashed too often there; at last it stays Stopped."""
    fleet.zone.change("UPDATE service_offerings SET offer_ha = true")
    fleet.set_value("vm.ha.restart.attempts", 2)
    fleet.deploy(1)
    fleet.run()
    hosts = []
    for _ in range(5):
        (vm,) = fleet.vms()
        hosts.append(vm.host_id)
        crash_guest(fleet, window, vm)
        look_twice(guest_watch, clock)
        window.crashed = []
        fleet.run()
    (vm,) = fleet.vms()
    assert (vm.state, vm.host_id) == ("Stopped", None)
    assert hosts[0] == hosts[1] == hosts[2]
    assert len(set(hosts[2:])) > 1
    assert all(before != after for before, after in pairwise(hosts[2:]))
    assert [text for text in alerts(fleet) if "crashed 5 times" in text] != []
    fleet.assert_intact()


@pytest.mark.parametrize(
    ("why", "setting"),
    [
        ("not available", {}),
        ("off", {"vm.ha.enabled": "false"}),
        ("no try", {"vm.ha.restart.attempts": 0}),
        ("", {}),
    ],
)
def test_other_guests_that_end_stay_off(
    fleet: Fleet, window: Window, guest_watch: HostWatch, clock: Clock, why: str, setting: Mapping[str, object]
) -> None:
    """No guest is started again that was shut down (""), is not highly available, or where operators chose so."""
    fleet.zone.change("UPDATE service_offerings SET offer_ha = :ha", ha=why != "not available")
    for name, value in setting.items():
        fleet.set_value(name, value)
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    if why:
        crash_guest(fleet, window, vm)
    else:
        end_guest(fleet, vm)
    look_twice(guest_watch, clock)
    fleet.run()
    assert [row.state for row in fleet.vms()] == ["Stopped"]
    fleet.assert_intact()


def test_a_guest_that_ended_counts_as_broken_and_one_that_was_stopped_does_not(
    fleet: Fleet, guest_watch: HostWatch, clock: Clock
) -> None:
    """Autoheal starts a VM whose guest ended by itself, and leaves a VM alone that a call stopped."""
    fleet.deploy(2)
    fleet.run()
    ended, stopped = fleet.vms()
    end_guest(fleet, ended)
    look_twice(guest_watch, clock)
    fleet.make_job(STOP, stopped.id)
    fleet.run()
    assert {row.state for row in fleet.vms()} == {"Stopped"}
    with fleet.engine.connect() as connection:
        assert broken_vms(connection, [ended.id, stopped.id], 0) == [ended.id]
    fleet.zone.change("DELETE FROM async_jobs")  # as after job.expire.minutes
    with fleet.engine.connect() as connection:
        assert broken_vms(connection, [ended.id, stopped.id], 0) == []


def test_hosts_that_report_an_end_are_looked_at_at_once(
    fleet: Fleet, window: Window, guest_watch: HostWatch, clock: Clock
) -> None:
    """They and no others; what they tell is a hint, and a guest that runs on is left alone."""
    fleet.deploy()
    fleet.run()
    ended, running, unheard = fleet.vms()
    jobs = len(fleet.jobs())
    end_guest(fleet, ended)
    end_guest(fleet, unheard)
    guest_watch.look_after_ends()
    assert window.looked == []
    window.reported = frozenset({ended.uuid, running.uuid})
    for _ in range(2):
        guest_watch.look_after_ends()
        clock.now += 1
    reported = {row.uuid for row in fleet.zone.rows("SELECT uuid FROM hosts WHERE id = :host", host=ended.host_id)}
    reporting = {vm.host_id for vm in (ended, running)}
    assert (len(window.looked[0]), set(window.looked[1])) == (len(reporting), reported)
    stopped = fleet.zone.rows("SELECT instance_id FROM async_jobs ORDER BY id OFFSET :jobs", jobs=jobs)
    same_host = {vm.id for vm in (ended, unheard) if vm.host_id == ended.host_id}
    assert {row.instance_id for row in stopped} == same_host


def test_a_vm_that_a_job_works_on_is_left_alone(fleet: Fleet, guest_watch: HostWatch) -> None:
    """However often it is looked at: its guest may be on its way."""
    fleet.deploy()
    jobs = len(fleet.jobs())
    for _ in range(3):
        guest_watch.watch_hosts()
    assert len(fleet.jobs()) == jobs


def move_row(fleet: Fleet, vm: Any) -> None:
    """Let a VM be on another host, without its guest."""
    fleet.zone.change(
        "UPDATE virtual_machines SET host_id = (SELECT min(id) FROM hosts WHERE id <> :host) WHERE id = :id",
        host=vm.host_id,
        id=vm.id,
    )


def test_what_is_missing_on_one_host_says_nothing_of_another(
    fleet: Fleet, guest_watch: HostWatch, clock: Clock
) -> None:
    """A VM that was missing once and has moved since is missing for the first time there."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    jobs = len(fleet.jobs())
    end_guest(fleet, vm)
    guest_watch.watch_hosts()
    move_row(fleet, vm)
    clock.now += 1
    guest_watch.watch_hosts()
    assert len(fleet.jobs()) == jobs
    clock.now += 1
    guest_watch.watch_hosts()
    assert len(fleet.jobs()) == jobs + 1


def test_nobody_looks_after_hosts_that_are_gone(
    fleet: Fleet, window: Window, guest_watch: HostWatch, clock: Clock
) -> None:
    """What was missing on them is forgotten, and comes to nothing if the VM is found elsewhere."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    end_guest(fleet, vm)
    guest_watch.watch_hosts()
    fleet.zone.change("UPDATE hosts SET removed = now() WHERE id = :id", id=vm.host_id)
    clock.now += 1
    guest_watch.look_after_ends()
    window.looked.clear()
    move_row(fleet, vm)
    guest_watch.look_after_ends()
    assert window.looked == []
