"""A host dies, is declared off and comes back, where its driver cannot fence it: each VM runs once, in the end."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.drivers.simulator.control import FaultKind, Step, cut_off, join_again
from bulkdeploy.provisioning.watches.host_watch import HostWatch
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.driver_records import records_in
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _look, _on, host
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.hypervisors.drivers import always
from tests.support.hypervisors.recorded_simulator import RecordedSimulator
from tests.support.zones.fleet import Fleet, OneDriver

__all__ = ["host"]


@pytest.fixture
def driver(fleet_simulator_url: str, engine: Engine) -> Iterator[RecordedSimulator]:
    """The driver of the API and of workers."""
    driver = RecordedSimulator(fleet_simulator_url)
    driver.use_records(records_in(engine, lambda _: True))
    yield driver
    driver.close()


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, driver: RecordedSimulator) -> System:
    """One whose driver cannot fence."""
    return System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))


@pytest.fixture
def dying(fleet: Fleet, driver: RecordedSimulator, host: str) -> str:
    """A host with VMS running VMs, which were started through the records."""
    for vm in fleet.vms():
        driver.use_records(records_in(fleet.engine, lambda _: True))
        fleet.zone.change(
            "INSERT INTO guest_fences (guest_uuid, fence, host_uuid, volume_uuids) SELECT v.uuid, 1, h.uuid,"
            " ARRAY(SELECT uuid FROM volumes WHERE vm_id = v.id) FROM virtual_machines v"
            " JOIN hosts h ON h.id = v.host_id WHERE v.id = :vm",
            vm=vm.id,
        )
    fleet.driver = driver
    fleet.zone.change("UPDATE hosts SET url = 'http://rack/a-1-1' WHERE uuid = CAST(:host AS uuid)", host=host)
    return host


def running(fleet: Fleet) -> list[Guest]:
    """Every guest that runs, a guest that runs twice twice."""
    return [guest for guest in fleet.driver.list_guests() if guest.power is PowerState.RUNNING]


def recorded_on(fleet: Fleet, host: str) -> int:
    """How many guests the records place on a host."""
    return int(fleet.zone.scalar("SELECT count(*) FROM guest_fences WHERE host_uuid = CAST(:h AS uuid)", h=host))


def test_vms_run_elsewhere_while_the_host_stays_dead(fleet: Fleet, client: ApiClient, dying: str) -> None:
    """Nothing is recorded on the host any more, and VMs are started, stopped and started as any others."""
    cut_off(fleet.control, "a-1-1")
    job = _finish(fleet, client, client.call("evacuateHost", id=dying, force=True)["jobid"])
    moved = job["jobresult"]["hostmigration"]
    assert (len(moved["moved"]), moved.get("failed", [])) == (VMS, [])
    assert (recorded_on(fleet, dying), _on(fleet, dying)) == (0, 0)
    vm = str(fleet.vms()[0].uuid)
    for command in ("stopVirtualMachine", "startVirtualMachine"):
        assert _finish(fleet, client, client.call(command, id=vm)["jobid"])["jobstatus"] == 1
    assert {one.state for one in fleet.vms()} == {"Running"}


@pytest.mark.parametrize("returns", ["during", "after"])
def test_what_still_runs_ends_before_the_host_takes_vms(
    fleet: Fleet, client: ApiClient, dying: str, returns: str
) -> None:
    """Its guests ran on. The sweeper, and else reconnectHost, ends them; those elsewhere run on."""
    cut_off(fleet.control, "a-1-1")
    job = client.call("evacuateHost", id=dying, force=True)["jobid"]
    if returns == "during":
        _look(fleet)
        join_again(fleet.control, "a-1-1")
        assert "evacuates the host" in refused(client, "reconnectHost", id=dying).errortext
        HostWatch(fleet.engine, OneDriver(fleet.driver), 30.0).watch_hosts()
    assert len(_finish(fleet, client, job)["jobresult"]["hostmigration"]["moved"]) == VMS
    join_again(fleet.control, "a-1-1")
    assert len(running(fleet)) == (VMS if returns == "during" else 2 * VMS)
    client.call("reconnectHost", id=dying)
    assert len(running(fleet)) == VMS
    assert client.call("listHosts", id=dying)["host"][0]["state"] == "Up"
    fleet.deploy(1, host="a-1-1")
    fleet.run()
    assert (len(running(fleet)), recorded_on(fleet, dying)) == (VMS + 1, 1)
    assert [text for finding in audit(fleet.engine, [fleet.driver]) for text in finding.breaches] == []


def test_a_host_whose_guests_cannot_be_ended_stays_down(fleet: Fleet, client: ApiClient, dying: str) -> None:
    """As long as a guest may still run on it the host takes no VMs; the refusal says why."""
    cut_off(fleet.control, "a-1-1")
    _finish(fleet, client, client.call("evacuateHost", id=dying, force=True)["jobid"])
    join_again(fleet.control, "a-1-1")
    fleet.fault(Step.ANY, FaultKind.PERMANENT, host=dying)
    failure = refused(client, "reconnectHost", id=dying)
    assert "takes no virtual machines before the guests" in failure.errortext
    assert client.call("listHosts", id=dying)["host"][0]["state"] == "Down"
    fleet.clear_faults()
    client.call("reconnectHost", id=dying)
    assert len(running(fleet)) == VMS


def test_a_start_that_was_under_way_there_goes_on_elsewhere(fleet: Fleet, client: ApiClient, dying: str) -> None:
    """Its job claimed the host, which then was declared off: it starts the VM on another host, and ends."""
    vm = str(fleet.vms()[0].uuid)
    assert _finish(fleet, client, client.call("stopVirtualMachine", id=vm, forced=True)["jobid"])["jobstatus"] == 1
    cut_off(fleet.control, "a-1-1")
    start = client.call("startVirtualMachine", id=vm, hostid=dying)["jobid"]
    _look(fleet)
    evacuation = client.call("evacuateHost", id=dying, force=True)["jobid"]
    assert _finish(fleet, client, evacuation)["jobstatus"] == 1
    assert _finish(fleet, client, start)["jobstatus"] != 0
    assert recorded_on(fleet, dying) == 0
    assert len(running(fleet)) >= VMS - 1
    assert client.call("startVirtualMachine", id=vm) if fleet.vms()[0].state == "Stopped" else True
    _look(fleet)
    assert {one.state for one in fleet.vms()} == {"Running"}


def test_vms_of_a_dead_host_are_destroyed(fleet: Fleet, client: ApiClient, dying: str) -> None:
    """VMs that were declared off are destroyed as any others, and nothing of them is left once the host is back."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name IN ('a-1-2', 'a-1-3')")
    cut_off(fleet.control, "a-1-1")
    _finish(fleet, client, client.call("evacuateHost", id=dying, force=True)["jobid"])
    assert {one.state for one in fleet.vms()} == {"Stopped"}
    join_again(fleet.control, "a-1-1")
    client.call("reconnectHost", id=dying)
    assert running(fleet) == []
    for vm in fleet.vms():
        job = client.call("destroyVirtualMachine", id=str(vm.uuid), expunge=True)["jobid"]
        assert _finish(fleet, client, job)["jobstatus"] == 1
    assert list(fleet.driver.list_volumes()) == []
