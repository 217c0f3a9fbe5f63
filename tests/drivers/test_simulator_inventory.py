"""Telling the simulator what there is: hosts and guests, many at a time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import pytest
from psycopg import Connection

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.inventory import AdoptedGuest, list_hosts
from bulkdeploy.drivers.simulator.link import PAGE_ROWS
from tests.drivers.subjects import Caller, address, guests_of, new_guest, new_host


def used(control: Connection) -> dict[str, tuple[int, int, int]]:
    """MHz, MiB and guests in use by host name."""
    return {row.host.name: (row.cpu_mhz_used, row.memory_mib_used, row.guests_used) for row in list_hosts(control)}


def test_an_unknown_host_is_refused(simulator: SimulatorDriver) -> None:
    """A host that nobody told of makes nothing; elsewhere the guest may still go."""
    stranger = HostAddress(uuid4(), "stranger", "192.0.2.9", "Simulator")
    caller, guest = Caller(simulator), new_guest()
    for call in (caller.run, caller.stop, caller.remove):
        with pytest.raises(DriverError, match=f"no host with uuid {stranger.uuid} is known here") as refused:
            call(stranger, guest)
        assert (refused.value.host, refused.value.transient) == ("stranger", True)
    assert guests_of(simulator) == {}


def test_hosts_are_made_known_and_changed(simulator: SimulatorDriver, control: Connection) -> None:
    """Telling again changes sizes and limits, keeps what runs, and forgets nobody."""
    alpha, beta = new_host("alpha", guests=2), new_host("beta")
    simulator.sync_hosts([alpha, beta])
    Caller(simulator).run(address(alpha), new_guest())
    smaller = replace(alpha, name="renamed", guests_limit=1)
    simulator.sync_hosts([smaller])
    simulator.sync_hosts([])
    assert [row.host for row in list_hosts(control)] == [beta, smaller]
    assert used(control)["renamed"] == (500, 256, 1)
    with pytest.raises(DriverError, match="no room"):
        Caller(simulator).run(address(smaller), new_guest())


def test_limits_below_what_runs_only_keep_new_guests_out(simulator: SimulatorDriver) -> None:
    """Guests that run stay when over-commit is lowered under them, and can be stopped."""
    host, guest = new_host("alpha"), new_guest()
    simulator.sync_hosts([host])
    Caller(simulator).run(address(host), guest)
    simulator.sync_hosts([replace(host, cpu_mhz_limit=1, memory_mib_limit=1, guests_limit=0)])
    Caller(simulator).run(address(host), guest)
    with pytest.raises(DriverError, match="free are 0 MHz, 0 MiB and 0"):
        Caller(simulator).run(address(host), new_guest())
    Caller(simulator).stop(address(host), guest)
    assert guest.uuid not in guests_of(simulator)


def test_adopted_guests_run_and_count(simulator: SimulatorDriver, control: Connection) -> None:
    """A guest that was there before us is listed, takes room, can be stopped, and is adopted once."""
    host = new_host("alpha", guests=3)
    simulator.sync_hosts([host])
    guests = [new_guest(volumes=count) for count in (0, 1, 3)]
    adopted = [AdoptedGuest(host.uuid, guest) for guest in guests]
    assert simulator.adopt_guests(adopted[:2]) == 2
    assert simulator.adopt_guests(adopted) == 1
    assert simulator.adopt_guests(adopted) == 0
    assert {guest.power for guest in guests_of(simulator).values()} == {PowerState.RUNNING}
    assert len(list(simulator.list_volumes())) == 4
    assert used(control) == {"alpha": (1500, 768, 3)}
    Caller(simulator).run(address(host), guests[0])
    with pytest.raises(DriverError, match="no room"):
        Caller(simulator).run(address(host), new_guest())
    Caller(simulator).remove(None, guests[2])
    assert used(control) == {"alpha": (1000, 512, 2)}


def test_adopted_guests_may_exceed_the_limits(simulator: SimulatorDriver, control: Connection) -> None:
    """What runs is a fact, whatever the limits say."""
    host = new_host("alpha", guests=1)
    simulator.sync_hosts([host])
    assert simulator.adopt_guests([AdoptedGuest(host.uuid, new_guest()) for _ in range(3)]) == 3
    assert used(control)["alpha"][2] == 3


def test_a_stopped_guest_can_be_adopted_where_it_runs_now(simulator: SimulatorDriver, control: Connection) -> None:
    """A guest that left one host is taken on another."""
    alpha, beta = new_host("alpha"), new_host("beta")
    simulator.sync_hosts([alpha, beta])
    guest = new_guest()
    Caller(simulator).run(address(alpha), guest)
    Caller(simulator).stop(address(alpha), guest)
    assert simulator.adopt_guests([AdoptedGuest(beta.uuid, guest)]) == 1
    assert used(control) == {"alpha": (0, 0, 0), "beta": (500, 256, 1)}


@pytest.mark.parametrize("wrong", ["unknown host", "other host"])
def test_contradictions_adopt_no_guest(simulator: SimulatorDriver, wrong: str) -> None:
    """A host that is not known, or a guest that is elsewhere, refuses the whole load."""
    alpha, beta = new_host("alpha"), new_host("beta")
    simulator.sync_hosts([alpha, beta])
    elsewhere = new_guest()
    Caller(simulator).run(address(beta), elsewhere)
    bad = AdoptedGuest(uuid4(), new_guest()) if wrong == "unknown host" else AdoptedGuest(alpha.uuid, elsewhere)
    before = guests_of(simulator)
    with pytest.raises(DriverError, match="known here" if wrong == "unknown host" else "there already"):
        simulator.adopt_guests([AdoptedGuest(alpha.uuid, new_guest()), bad])
    assert guests_of(simulator) == before
    assert len(list(simulator.list_volumes())) == 2


def test_adopting_races_with_calls_and_counts_once(simulator: SimulatorDriver, control: Connection) -> None:
    """While guests are adopted, calls for the same guests come in: each is counted once."""
    host = new_host("alpha", guests=1000)
    simulator.sync_hosts([host])
    guests = [new_guest() for _ in range(100)]
    adopted = [AdoptedGuest(host.uuid, guest) for guest in guests]

    def request(number: int) -> None:
        with suppress(DriverError):
            if number % 20 == 7:
                simulator.adopt_guests(adopted)
            else:
                Caller(simulator).run(address(host), guests[number % 100])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(request, range(300)))
    simulator.adopt_guests(adopted)
    assert used(control) == {"alpha": (50_000, 25_600, 100)}
    assert len(guests_of(simulator)) == 100


def test_lists_longer_than_a_page_are_whole(simulator: SimulatorDriver) -> None:
    """Guests and volumes beyond the page size are listed, each once."""
    hosts = [new_host(f"host-{number}") for number in range(1000)]
    simulator.sync_hosts(hosts)
    count = PAGE_ROWS + 1
    guests = [AdoptedGuest(hosts[number % 1000].uuid, new_guest(volumes=1)) for number in range(count)]
    assert simulator.adopt_guests(guests) == count
    assert set(guests_of(simulator)) == {guest.spec.uuid for guest in guests}
    assert len({volume[0] for volume in simulator.list_volumes()}) == count


def test_volumes_are_guarded(simulator: SimulatorDriver) -> None:
    """A volume in use is neither given to another guest nor deleted; it grows, and never shrinks."""
    host = new_host("alpha")
    simulator.sync_hosts([host])
    caller, owner = Caller(simulator), new_guest(volumes=1)
    caller.run(address(host), owner)
    disk = owner.volumes[0]
    thief = replace(new_guest(volumes=0), volumes=(disk,))
    with pytest.raises(DriverError, match="in use by guest"):
        caller.run(address(host), thief)
    with pytest.raises(DriverError, match="in use by guest"):
        caller.remove(None, thief)
    caller.stop(address(host), owner)
    for wrong, why in (
        (replace(disk, size_bytes=1), "lose data"),
        (replace(disk, pool_uuid=uuid4()), "is in pool"),
    ):
        with pytest.raises(DriverError, match=why):
            caller.run(address(host), replace(owner, volumes=(wrong,)))
    grown = replace(disk, size_bytes=disk.size_bytes * 2)
    caller.run(address(host), replace(owner, volumes=(grown,)))
    assert list(simulator.list_volumes()) == [(disk.uuid, disk.pool_uuid, grown.size_bytes)]


def test_a_running_guest_does_not_change_its_size(simulator: SimulatorDriver) -> None:
    """Asking for other sizes while it runs is refused; after a stop they are taken."""
    host, guest = new_host("alpha"), new_guest()
    simulator.sync_hosts([host])
    caller, larger = Caller(simulator), replace(guest, cpu_number=4)
    caller.run(address(host), guest)
    with pytest.raises(DriverError, match="already runs with 1 x 500 MHz and 256 MiB"):
        caller.run(address(host), larger)
    caller.stop(address(host), guest)
    caller.run(address(host), larger)
    assert guests_of(simulator)[guest.uuid].cpu_number == 4
