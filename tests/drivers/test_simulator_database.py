"""The simulator's database makes itself, once, and outlives everything."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from bulkdeploy.drivers.errors import DriverError, StaleFence
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.control import FaultKind, FaultRule, Step, add_fault, list_faults
from bulkdeploy.drivers.simulator.database import connect, derived_url, drop_database, ensure_database
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.inventory import AdoptedGuest
from bulkdeploy.embedded.postgres import PostgresServer
from tests.drivers.subjects import Caller, address, guests_of, new_guest, new_host, volume_uuids
from tests.support.processes.services import unique_name, with_database


@pytest.fixture
def unmade_url(postgres_url: str) -> Iterator[str]:
    """The URL of a database that does not exist."""
    url = with_database(postgres_url, unique_name("simulator"))
    yield url
    drop_database(url)


def test_many_processes_may_make_the_database_at_once(unmade_url: str) -> None:
    """Eight starters at once all succeed, and what they made works."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ensure_database, [unmade_url] * 8))
    driver, host, guest = SimulatorDriver(unmade_url), new_host("alpha"), new_guest()
    driver.sync_hosts([host])
    Caller(driver).run(address(host), guest)
    assert set(guests_of(driver)) == {guest.uuid}
    driver.close()


def test_making_it_again_keeps_what_is_there(unmade_url: str) -> None:
    """A start on an existing database loses nothing, also when it brings other functions."""
    ensure_database(unmade_url)
    driver, host, guest = SimulatorDriver(unmade_url), new_host("alpha"), new_guest()
    driver.sync_hosts([host])
    Caller(driver).run(address(host), guest)
    with connect(unmade_url) as connection:
        add_fault(connection, FaultRule(Step.ANY, FaultKind.HANG, host="beta"))
        connection.execute("UPDATE simulator.settings SET code_digest = 'of another release'")
    ensure_database(unmade_url)
    assert set(guests_of(driver)) == {guest.uuid}
    Caller(driver).stop(address(host), guest)
    assert guests_of(driver) == {}
    with connect(unmade_url) as connection:
        assert [rule.host for rule in list_faults(connection)] == ["beta"]
    driver.close()


def test_reopening_finds_guests_volumes_and_fences(simulator_url: str) -> None:
    """What one driver did, another process's driver knows, also whom to refuse."""
    host, guest, gone = new_host("alpha"), new_guest(), new_guest()
    first = SimulatorDriver(simulator_url)
    first.sync_hosts([host])
    Caller(first, fence=5).run(address(host), guest)
    Caller(first, fence=5).remove(None, gone)
    first.close()
    second = SimulatorDriver(simulator_url)
    assert guests_of(second)[guest.uuid].power is PowerState.RUNNING
    assert {volume[0] for volume in second.list_volumes()} == set(volume_uuids(guest))
    for late in (guest, gone):
        with pytest.raises(DriverError):
            Caller(second, fence=4).run(address(host), late)
    second.close()


def test_only_old_fences_of_guests_that_are_gone_are_forgotten(simulator_url: str) -> None:
    """A start forgets fences after a month, never those of guests that are there."""
    host, there, gone, old = new_host("alpha"), new_guest(), new_guest(), new_guest()
    driver = SimulatorDriver(simulator_url)
    driver.sync_hosts([host])
    Caller(driver, fence=5).run(address(host), there)
    for guest in (gone, old):
        Caller(driver, fence=5).remove(None, guest)
    with connect(simulator_url) as connection:
        connection.execute(
            "UPDATE simulator.guests SET changed = now() - interval '31 days' WHERE uuid = ANY (%s)",
            [[there.uuid, old.uuid]],
        )
    ensure_database(simulator_url)
    late = Caller(driver, fence=4)
    for guest in (there, gone):
        with pytest.raises(StaleFence):
            late.run(address(host), guest)
    late.run(address(host), old)
    driver.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A running server of the test's own; what it wrote survives its death, if not the machine's.

    Not below ``tmp_path``: pytest closes that folder to the account that the server runs as.
    """
    with tempfile.TemporaryDirectory(prefix="bulkdeploy-tests-") as name:
        folder = Path(name)
        own = {"fsync": "off", "shared_buffers": "32MB"}
        server = PostgresServer(folder / "postgres", folder / "postgres.log", own, sync=False)
        server.start()
        yield server
        server.stop()


def calls_until_the_server_is_gone(caller: Caller, host: HostAddress) -> set[UUID]:
    """Starts guests until a call fails; returns those that were answered."""
    answered: set[UUID] = set()
    while True:
        guest = new_guest()
        try:
            caller.run(host, guest)
        except DriverError:
            return answered
        answered.add(guest.uuid)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_answered_calls_survive_a_restart_of_the_server(own_server: PostgresServer, how: str) -> None:
    """After a clean stop and after kill -9 everything that was answered is there, and the same driver goes on."""
    url = own_server.url("hypervisors")
    ensure_database(url)
    driver, host = SimulatorDriver(url), new_host("alpha", guests=100_000, cpu_mhz=10**8, memory_mib=10**8)
    driver.sync_hosts([host])
    guests = [new_guest() for _ in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda guest: Caller(driver).run(address(host), guest), guests))
    if how == "killed" and own_server.process is not None:
        own_server.process.kill()
        own_server.process.wait()
    else:
        own_server.stop()
    late = calls_until_the_server_is_gone(Caller(driver, timeout_s=0.2), address(host))
    own_server.start()
    running = {uuid for uuid, guest in guests_of(driver).items() if guest.power is PowerState.RUNNING}
    assert running >= {guest.uuid for guest in guests} | late
    Caller(driver).run(address(host), new_guest())
    driver.close()


def end_every_session(url: str) -> None:
    """What a restart of the server does to connections."""
    with connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_broken_connections_are_replaced(simulator_url: str) -> None:
    """When the server ends every session, the next calls, lists and loads succeed all the same."""
    driver, host = SimulatorDriver(simulator_url, pool_size=4), new_host("alpha")
    driver.sync_hosts([host])
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda guest: Caller(driver).run(address(host), guest), [new_guest() for _ in range(16)]))
    end_every_session(simulator_url)
    for _ in range(6):
        Caller(driver).run(address(host), new_guest())
    end_every_session(simulator_url)
    assert len(guests_of(driver)) == 22
    end_every_session(simulator_url)
    assert driver.adopt_guests([AdoptedGuest(host.uuid, new_guest())]) == 1
    driver.close()


def test_a_server_that_is_not_there_is_a_transient_failure(unmade_url: str) -> None:
    """Calls and lists on a database that is gone fail as a hypervisor does, and say so."""
    driver = SimulatorDriver(unmade_url, pool_size=1)
    with pytest.raises(DriverError, match="connect failed on host alpha: no connection") as failed:
        Caller(driver, timeout_s=0.2).run(address(new_host("alpha")), new_guest())
    assert failed.value.transient
    driver.close()


def test_sizes_beyond_reason_are_refused_for_good(simulator: SimulatorDriver) -> None:
    """A size that no number holds is a permanent failure, and nothing is left of the guest."""
    host = new_host("alpha")
    simulator.sync_hosts([host])
    for wrong in (new_guest(cpu_number=2**40, cpu_mhz=1), new_guest(memory_mib=2**70)):
        with pytest.raises(DriverError) as refused:
            Caller(simulator).run(address(host), wrong)
        assert not refused.value.transient
    assert list(simulator.list_volumes()) == []
    assert guests_of(simulator) == {}


@pytest.mark.parametrize(
    ("database_url", "derived"),
    [
        ("postgresql://u:p%40@db.example:5432/cloud", "postgresql://u:p%40@db.example:5432/cloud_simulator"),
        ("postgresql:///cloud?host=%2Frun%2Fpg", "postgresql:///cloud_simulator?host=%2Frun%2Fpg"),
        ("postgresql+psycopg://u@h/a%20b", "postgresql+psycopg://u@h/a%20b_simulator"),
    ],
)
def test_the_database_lies_beside_the_products(database_url: str, derived: str) -> None:
    """Unless told otherwise, the simulator uses the same server and the name with a suffix."""
    assert derived_url(database_url) == derived


@pytest.mark.parametrize("database_url", ["postgresql://u@h", "postgresql://u@h/", f"postgresql://u@h/{'x' * 60}"])
def test_a_name_that_cannot_be_derived_is_an_error(database_url: str) -> None:
    """No name, or one that PostgreSQL would cut, is refused instead of guessed."""
    with pytest.raises(ValueError, match=r"names no database|longer than 63 bytes"):
        derived_url(database_url)


def test_sqlalchemys_spelling_of_a_url_is_taken(simulator_url: str) -> None:
    """postgresql+psycopg:// is the same place as postgresql://."""
    with connect(simulator_url.replace("postgresql://", "postgresql+psycopg://")) as connection:
        assert connection.execute("SELECT count(*) FROM simulator.hosts").fetchone() == (0,)


def test_dropping_needs_no_cooperation(unmade_url: str) -> None:
    """The database goes even while someone is connected; dropping nothing is fine."""
    ensure_database(unmade_url)
    with connect(unmade_url) as connection:
        drop_database(unmade_url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    drop_database(unmade_url)
